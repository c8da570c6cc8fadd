"""The output of an agent as lines for people: what it says, the tools it uses, its errors."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from shiftboss.agents.output_events import (
    AgentActivity,
    Denied,
    Finished,
    OutputReader,
    RateLimited,
    Signal,
    ToolUse,
)
from shiftboss.agents.output_lines import parse_object
from shiftboss.agents.registry import AGENTS
from shiftboss.attempts.records import AttemptRecord
from shiftboss.rules.documents.printable import printable, printable_lines

LineKind = Literal["text", "tool", "denied", "limit", "error", "finished", "stderr"]
LINE_CHARACTERS_MAX: Final = 2000
# How a line of this kind begins where its kind is not shown otherwise.
_PREFIXES: Final[dict[LineKind, str]] = {
    "denied": "denied",
    "limit": "limit",
    "error": "failed",
    "finished": "finished",
    "stderr": "stderr",
}


class AgentLine(NamedTuple):
    """`text` is printable; further lines of it are indented."""

    kind: LineKind
    text: str

    def __str__(self) -> str:
        return ": ".join(part for part in (_PREFIXES.get(self.kind, ""), self.text) if part)


class AgentLines:
    """Reads the output line by line, as the run does. Lines that are not reports of the agent are
    shown as they are: they come from a program that does not report on itself, or from before it
    does. `report_member` is the member that all reports have."""

    def __init__(self, reader: OutputReader, report_member: str) -> None:
        self._reader = reader
        self._report_member = report_member

    @classmethod
    def of(cls, record: AttemptRecord) -> AgentLines:
        settings = record.settings
        agent = AGENTS.get(settings.kind, AGENTS["command"])  # of an agent that is gone since
        return cls(agent.reader(settings), agent.report_member)

    def read(self, line: str) -> list[AgentLine]:
        signals = self._reader.read(line)
        if not signals and line.strip() and self._report_member not in (parse_object(line) or ()):
            return [AgentLine("text", _cut(line.rstrip()))]
        return [told for signal in signals if (told := _told(signal))]


def error_line(line: str) -> AgentLine:
    return AgentLine("stderr", _cut(line))


def _cut(line: str) -> str:
    more = "..." if len(line) > LINE_CHARACTERS_MAX else ""
    return printable(line[:LINE_CHARACTERS_MAX]) + more


def _told(signal: Signal) -> AgentLine | None:
    """None for what is not an event of its own, such as the tokens so far."""
    match signal:
        case ToolUse():
            return AgentLine("tool", printable(signal.text))
        case AgentActivity():
            return AgentLine("text", printable(signal.text))
        case Denied():
            return AgentLine("denied", f"{printable(signal.tool)}: {_indented(signal.error)}")
        case RateLimited():
            return AgentLine("limit", printable(signal.message))
        case Finished(ok=True):
            return AgentLine("finished", _indented(signal.message))
        case Finished():
            return AgentLine("error", _indented(signal.message))
        case _:
            return None


def _indented(text: str) -> str:
    """Further lines belong to the first one."""
    return printable_lines(text).replace("\n", "\n  ")
