"""A coding agent that Shiftboss does not know: everything a new agent has to provide."""

from __future__ import annotations

from collections.abc import Collection
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from shiftboss.agents.agent import Agent, HookAnswer, StopHook, ToolHook

if TYPE_CHECKING:
    from shiftboss.agents.launch import AgentWorkspace, Launch
    from shiftboss.agents.output_events import OutputReader
    from shiftboss.agents.repository_settings import RepositoryServer
    from shiftboss.protocol.plan import PlanAgent
    from shiftboss.rules.documents.file_edits import FileEdit


class AiderToolHook(ToolHook):
    """It has its own names for tools, files and commands, and expects the answer as text."""

    tool_key = "function"
    input_key = "given"
    path_keys = frozenset(("fname",))
    command_keys = ("run",)
    reading_tools = frozenset(("show_file",))
    writing_tools = frozenset(("put_file",))
    running_tools = frozenset(("run_it",))

    def allow(self) -> HookAnswer:
        return HookAnswer(stdout="yes")

    def refuse(self, reason: str) -> HookAnswer:
        return HookAnswer(stdout=f"no: {reason}")


class AiderStopHook(StopHook):
    decision = "continue"


class Aider(Agent):
    kind = "aider"
    program = "aider"
    install_command = "pip install aider-chat"
    hooks = MappingProxyType({"aider-tool": AiderToolHook(), "aider-end": AiderStopHook()})
    traces = (".aider.conf.yml",)

    def launch(
        self,
        workspace: AgentWorkspace,
        settings: PlanAgent,
        prompt: str,
        model: str | None,  # noqa: ARG002
    ) -> Launch:
        from shiftboss.agents.launch import launch

        arguments = ["--hook", *workspace.hook_argv("aider-tool")]
        return launch(workspace, settings, self.program, arguments, prompt)

    def reader(self, settings: PlanAgent) -> OutputReader:
        from shiftboss.agents.command import CommandOutput

        return CommandOutput(settings)

    def setup_files(
        self,
        names: Collection[str],  # noqa: ARG002
        server: RepositoryServer | None = None,  # noqa: ARG002
    ) -> list[FileEdit]:
        from shiftboss.agents.repository_settings import stop_hook, tool_hook
        from shiftboss.rules.documents.file_edits import JsonFile

        return [
            JsonFile(
                ".aider/hooks.json",
                [tool_hook("Tool", "aider-tool", "*"), stop_hook("End", "aider-end")],
            )
        ]


AGENT: Final = Aider()
