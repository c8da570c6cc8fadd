"""Starting an agent: its command line and environment, and what all brands have in common."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from shiftboss.defaults import TOKEN_VARIABLE
from shiftboss.protocol.plan import PlanAgent
from shiftboss.system.private_files import write_private

# The name under which agents see our MCP server.
SERVER_NAME: Final = "shiftboss"
# Longer than the server lets a tool call wait.
TOOL_SECONDS: Final = 120
# An agent that waits longer for a hook continues as if it was allowed. The hook itself gives up,
# and refuses, long before that.
HOOK_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class Launch:
    """A command line, its complete environment, and its standard input."""

    argv: list[str]
    folder: Path
    environment: dict[str, str] = field(repr=False)
    stdin: bytes = b""


class AgentWorkspace(Protocol):
    """The facts about an attempt that starting an agent needs. `tree` is the work tree; `scratch`
    is a folder outside of it for the files of the attempt. `environment` is all that the agent gets
    from us."""

    @property
    def tree(self) -> Path: ...
    @property
    def scratch(self) -> Path: ...
    @property
    def server_url(self) -> str: ...
    @property
    def server_token(self) -> str | None: ...
    @property
    def environment(self) -> dict[str, str]: ...
    @property
    def task_id(self) -> str: ...
    @property
    def worker(self) -> str: ...

    def hook_argv(self, kind: str) -> list[str]:
        """The command line of one of our hooks, bound to the contract of the attempt."""
        ...


def launch(
    workspace: AgentWorkspace,
    settings: PlanAgent,
    program: str,
    arguments: list[str],
    prompt: str,
    variables: Mapping[str, str] | None = None,
) -> Launch:
    """The prompt goes to standard input: it may be long, and other users can read an argv. The
    arguments of the plan come last, so that they win where an option may be repeated."""
    environment = {
        **user_environment(workspace, settings),
        "PWD": str(workspace.tree),
        **(variables or {}),
    }
    if workspace.server_token is not None:
        environment[TOKEN_VARIABLE] = workspace.server_token
    return Launch(
        argv=[*(settings.command or [program]), *arguments, *settings.arguments],
        folder=workspace.tree,
        environment=environment,
        stdin=prompt.encode(errors="replace"),
    )


def user_environment(workspace: AgentWorkspace, settings: PlanAgent) -> dict[str, str]:
    """The variables that say where the user's own settings are."""
    return {**workspace.environment, **settings.environment}


def mcp_url(workspace: AgentWorkspace) -> str:
    return f"{workspace.server_url.rstrip('/')}/mcp"


def shell_hook(workspace: AgentWorkspace, kind: str, timeout: int = HOOK_SECONDS) -> dict[str, Any]:
    """A hook for settings which want its command as one line of shell."""
    return hook_settings(shlex.join(workspace.hook_argv(kind)), timeout)


def hook_settings(command: str, timeout: int) -> dict[str, Any]:
    """One hook, in the JSON form that several agents have in common."""
    return {"type": "command", "command": command, "timeout": timeout}


def write_settings(path: Path, members: Mapping[str, Any]) -> Path:
    return write_private(path, json.dumps(members, indent=2))
