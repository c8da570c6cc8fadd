"""The port of an agent: how it is started, and what its output means."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from shiftboss.orchestrator.seat import Seat
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

    def launch(self, seat: Seat, settings: PlanAgent, prompt: str, model: str | None) -> Launch:
        """Writes what it needs into the scratch folder of the seat, never into the tree."""
        ...

    def reader(self, settings: PlanAgent) -> OutputReader: ...

    def found(self, settings: PlanAgent) -> str | None:
        """What is missing to start it, for people; None when nothing is."""
        ...
