"""The port of a coding agent: everything that a brand tells the rest of Shiftboss about itself.

A hook loads this module and the declaration of one brand, and it has a few milliseconds to do so.
Types are therefore imported for type checking only, and methods import what they need.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

    from shiftboss.agents.launch import AgentWorkspace, Launch
    from shiftboss.agents.output_events import OutputReader
    from shiftboss.agents.repository_settings import RepositoryServer
    from shiftboss.protocol.plan import PlanAgent
    from shiftboss.rules.documents.file_edits import FileEdit

# Every refusal of a tool starts with this. The orchestrator uses it to tell a refusal by our own
# hooks from one by the agent itself.
REFUSED: Final = "Shiftboss refused this"


class HookAnswer(NamedTuple):
    """The output of a hook process, and its exit code."""

    exit_code: int = 0
    stdout: str = ""
    stderr: str = ""


class ToolHook:
    """A hook that an agent runs before it uses a tool.

    The attributes say where the agent's input has the name and the input of the tool. Beside the
    keys and tool names that all agents share (`shiftboss.hooks.tool_hook`), a brand may name its
    own: keys whose value is a path or a command, tools that only read, and tools that must name a
    file they write or a command they run.
    """

    tool_key: ClassVar[str] = "tool_name"
    input_key: ClassVar[str] = "tool_input"
    path_keys: ClassVar[frozenset[str]] = frozenset()
    command_keys: ClassVar[Sequence[str]] = ()
    reading_tools: ClassVar[frozenset[str]] = frozenset()
    writing_tools: ClassVar[frozenset[str]] = frozenset()
    running_tools: ClassVar[frozenset[str]] = frozenset()

    def allow(self) -> HookAnswer:
        return HookAnswer()

    def refuse(self, reason: str) -> HookAnswer:
        return HookAnswer(2, stderr=reason)


class StopHook:
    """A hook that an agent runs before it ends."""

    # The value of `decision` that keeps the agent working.
    decision: ClassVar[str] = "block"

    def allow(self) -> HookAnswer:
        return HookAnswer(stdout="{}")

    def keep_working(self, reason: str) -> HookAnswer:
        import json

        return HookAnswer(stdout=json.dumps({"decision": self.decision, "reason": reason}))


Hook = ToolHook | StopHook


class ResumeCommand(NamedTuple):
    """How a person continues a session of an agent: a command line, and variables for it."""

    argv: list[str]
    variables: Mapping[str, str] = MappingProxyType({})


class Agent:
    """One brand. Subclasses set the attributes and implement `launch` and `reader`."""

    # The name in plans and on the command line. It is also the name of the brand's package.
    kind: ClassVar[str]
    # The program that is looked for on the PATH, and how to install it.
    program: ClassVar[str] = ""
    install_command: ClassVar[str] = ""
    # Whose models it uses, by the names of OpenTelemetry; empty if that is up to its settings.
    provider: ClassVar[str] = ""
    # Whether the agent gets our MCP tools, and so can claim its work and ask for files itself.
    has_tools: ClassVar[bool] = True
    # The member that every report in the agent's output has. Lines without it are for people.
    report_member: ClassVar[str] = "type"
    # By the kind of the hook, as in `shiftboss hook KIND`. A kind starts with the agent's name and
    # a hyphen; only the default agent has kinds without a prefix.
    hooks: ClassVar[Mapping[str, Hook]] = MappingProxyType({})
    # Whether the settings of `init` can name a file with the token; else it comes from a variable.
    reads_token_file: ClassVar[bool] = False
    # File names at the top of a repository which show that the agent is used there.
    traces: ClassVar[Sequence[str]] = ()

    def launch(
        self, workspace: AgentWorkspace, settings: PlanAgent, prompt: str, model: str | None
    ) -> Launch:
        """The command line of one process. Settings files go into the scratch folder of the
        workspace, never into the work tree."""
        raise NotImplementedError

    def reader(self, settings: PlanAgent) -> OutputReader:
        """Interprets the output of one process."""
        raise NotImplementedError

    # Why a person cannot continue a session of this agent; empty if `resume` says how.
    why_no_resume: ClassVar[str] = "it keeps no session that a person could continue"

    def session_of(self, line: str) -> str | None:  # noqa: ARG002
        """The id of its session, if this line of its output names it."""
        return None

    def resume(self, settings: PlanAgent, session: str, scratch: Path) -> ResumeCommand:
        """The command that continues a session after its process has ended. It is run in the work
        tree; `scratch` is the folder that `launch` had."""
        raise NotImplementedError

    def why_unavailable(self, settings: PlanAgent) -> str | None:
        """Why the agent cannot be started on this machine and what to do about it, or None."""
        import shutil

        program = settings.command[0] if settings.command else self.program
        if shutil.which(program) is not None:
            return None
        return (
            f"{program} is not on the PATH. Install it with `{self.install_command}` and log in, "
            f"or set the `command` of the agent in the plan"
        )

    def setup_files(
        self,
        names: Collection[str],  # noqa: ARG002
        server: RepositoryServer | None = None,  # noqa: ARG002
    ) -> list[FileEdit]:
        """The settings that `shiftboss init` adds to a repository. `names` are the files and
        folders at its top; `server` is the one that the user has named."""
        return []
