"""The port of an agent: how it is started, and what its output means."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from shiftboss.hooks.command import hook_argv
from shiftboss.orchestrator.attempt.workspace import Workspace
from shiftboss.protocol.plan import PlanAgent


@dataclass(frozen=True, slots=True)
class Launch:
    """A command line, its whole environment, and what it reads."""

    argv: list[str]
    folder: Path
    environment: dict[str, str] = field(repr=False)
    stdin: bytes = b""


class Usage(NamedTuple):
    """Tokens and dollars so far, of this process: later ones replace earlier ones. What was read
    from a cache is in `cached_tokens` and not in `input_tokens`. `context_tokens` is how much of
    the model's context is in use now, of `context_window`."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    dollars: float | None = None
    context_tokens: int | None = None
    context_window: int | None = None


class RateLimited(NamedTuple):
    """A quota is used up. `until` is a time in seconds since 1970, where the agent said so."""

    message: str
    until: float | None = None


class Denied(NamedTuple):
    """A tool was refused to the agent. `operation` is what it was to do, where that is told."""

    tool: str
    error: str
    operation: str | None = None


class Allowed(NamedTuple):
    """A tool was used and not refused: its refusals before that were not in a row."""

    tool: str
    operation: str | None = None


class Did(NamedTuple):
    """A sign of progress for people: a tool that was used, or words."""

    text: str


class Finished(NamedTuple):
    """The agent's own word on how its run ended; what is true, the server finds out."""

    ok: bool
    message: str = ""


Signal = Usage | RateLimited | Denied | Allowed | Did | Finished


class OutputReader(Protocol):
    """Of one process. It never raises, whatever the output holds."""

    def read(self, line: str) -> list[Signal]:
        """A line of its output."""
        ...

    def ended(self, exit_code: int | None, error_tail: str) -> list[Signal]:
        """What the exit code and the end of its errors tell, where its output did not."""
        ...


class Agent(Protocol):
    """`speaks`: it has our tools, and can claim its work and ask for files by itself."""

    kind: str
    speaks: bool

    def launch(
        self, seat: Workspace, settings: PlanAgent, prompt: str, model: str | None
    ) -> Launch:
        """Writes what it needs into the scratch folder of the seat, never into the tree."""
        ...

    def reader(self, settings: PlanAgent) -> OutputReader: ...

    def found(self, settings: PlanAgent) -> str | None:
        """What is missing to start it, for people; None when nothing is."""
        ...


# What the start of every agent has in common.


# The name under which agents know our tools.
SERVER_NAME: Final = "shiftboss"
# Longer than the server lets a call wait.
TOOL_SECONDS: Final = 120
# A hook that takes longer does not count as a refusal: its own limit is far below.
HOOK_SECONDS: Final = 60
TOKEN_VARIABLE: Final = "SHIFTBOSS_TOKEN"  # noqa: S105 -- the name of the variable


def launch(
    seat: Workspace,
    settings: PlanAgent,
    program: str,
    arguments: list[str],
    prompt: str,
    variables: Mapping[str, str] | None = None,
) -> Launch:
    """The prompt goes in on standard input: it may be long, and argv is for all to see. Arguments
    of the plan come last, and count where one can be said twice."""
    own = {"PWD": str(seat.tree), **(variables or {})}
    environment = {**users_environment(seat, settings), **own}
    if seat.server_token is not None:
        environment[TOKEN_VARIABLE] = seat.server_token
    return Launch(
        argv=[*(settings.command or [program]), *arguments, *settings.arguments],
        folder=seat.tree,
        environment=environment,
        stdin=prompt.encode(errors="replace"),
    )


def users_environment(seat: Workspace, settings: PlanAgent) -> dict[str, str]:
    """What says where the user's own settings are."""
    return {**seat.environment, **settings.environment}


def mcp_url(seat: Workspace) -> str:
    return f"{seat.server_url.rstrip('/')}/mcp"


def hook_command(kind: str, seat: Workspace) -> str:
    """For settings that want one line of shell: every word is quoted."""
    return shlex.join(hook_argv(kind, seat.contract_file))


def write_private(path: Path, text: str) -> Path:
    """For the owner alone, from the first byte on; whatever was there is gone."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.part")
    partial.unlink(missing_ok=True)
    made = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(made, "w", encoding="utf-8") as file:
        file.write(text)
    return partial.replace(path)


def write_settings(path: Path, members: Mapping[str, Any]) -> Path:
    return write_private(path, json.dumps(members, indent=2))


def missing(settings: PlanAgent, program: str, package: str) -> str | None:
    """For people: that the program is not there, and what to do."""
    asked = settings.command[0] if settings.command else program
    if shutil.which(asked) is not None:
        return None
    return (
        f"{asked} is not on the PATH: `npm install --global {package}` and log in, "
        f"or name the program in the `command` of the agent"
    )
