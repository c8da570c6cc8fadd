"""The output of an agent as lines for people: what it says, the tools it uses, its errors."""

from __future__ import annotations

from typing import Final

from shiftboss.agents.output_events import (
    AgentActivity,
    Denied,
    Finished,
    OutputReader,
    RateLimited,
    Signal,
)
from shiftboss.agents.output_lines import parse_object
from shiftboss.cli.common.output import printable, printable_lines

LINE_CHARACTERS_MAX: Final = 2000


class AgentLines:
    """Reads the output line by line, as the run does. Lines that are not reports of the agent are
    shown as they are: they come from a program that does not report on itself, or from before it
    does. `report_member` is the member that all reports have."""

    def __init__(self, reader: OutputReader, report_member: str) -> None:
        self._reader = reader
        self._report_member = report_member

    def read(self, line: str) -> list[str]:
        signals = self._reader.read(line)
        if not signals and line.strip() and self._report_member not in (parse_object(line) or ()):
            plain = line.rstrip()
            more = "..." if len(plain) > LINE_CHARACTERS_MAX else ""
            return [printable(plain[:LINE_CHARACTERS_MAX]) + more]
        return [text for signal in signals if (text := _text(signal))]


def _text(signal: Signal) -> str | None:
    """None for what is not an event of its own, such as the tokens so far."""
    match signal:
        case AgentActivity():
            return printable(signal.text)
        case Denied():
            return f"denied: {printable(signal.tool)}: {_indented(signal.error)}"
        case RateLimited():
            return f"limit: {printable(signal.message)}"
        case Finished(ok=True):
            return f"finished: {_indented(signal.message)}" if signal.message else "finished"
        case Finished():
            return f"failed: {_indented(signal.message)}"
        case _:
            return None


def _indented(text: str) -> str:
    """Further lines belong to the first one."""
    return printable_lines(text).replace("\n", "\n  ")
