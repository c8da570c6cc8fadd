"""The meaning of an agent's output, the same events for every brand."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Usage(NamedTuple):
    """Tokens and dollars of this process so far; a later report replaces an earlier one. Tokens
    read from a cache count in `cached_tokens` and not in `input_tokens`. `context_tokens` is how
    much of the model's context is in use, out of `context_window`."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    dollars: float | None = None
    context_tokens: int | None = None
    context_window: int | None = None


class RateLimited(NamedTuple):
    """A quota is used up. `until` is in seconds since 1970, if the agent reported a time."""

    message: str
    until: float | None = None


class Denied(NamedTuple):
    """The agent was not allowed to use a tool. `operation` is what the tool was to do, if known."""

    tool: str
    error: str
    operation: str | None = None


class Allowed(NamedTuple):
    """A tool was used. This ends a series of denials of the same tool."""

    tool: str
    operation: str | None = None


class AgentActivity(NamedTuple):
    """The agent's current activity, for people: a tool it uses, or a sentence it wrote."""

    text: str


class ToolUse(AgentActivity):
    """A tool that the agent uses, and what for."""

    __slots__ = ()


class Finished(NamedTuple):
    """How the run ended according to the agent. The server verifies the work in any case."""

    ok: bool
    message: str = ""


Signal = Usage | RateLimited | Denied | Allowed | AgentActivity | Finished


class OutputReader(Protocol):
    """Interprets the output of one process. It never raises, whatever the output contains."""

    def read(self, line: str) -> list[Signal]:
        """Interpret one line of output."""
        ...

    def ended(self, exit_code: int | None, error_tail: str) -> list[Signal]:
        """Interpret the exit code and the end of the error output."""
        ...
