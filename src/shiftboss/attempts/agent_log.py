"""The output of an attempt's agent, a page at a time: lines for people, and a cursor."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from shiftboss.attempts.agent_lines import AgentLine, AgentLines, error_line
from shiftboss.attempts.log_pages import LogPages, LogPosition
from shiftboss.attempts.records import AttemptRecord

PAGE_CHARACTERS_MAX: Final = 1_000_000
# Most lines of an agent's output may be reports that are not shown.
LINES_READ_MAX: Final = 20_000
# The reader of an agent's output remembers the tools in use: it is shown what came just before.
_REMEMBERED_BYTES: Final = 256 * 1024
_REMEMBERED_LINES: Final = 1000
_TAIL_BYTES: Final = 256 * 1024
_POSITION: Final = r"([0-9]{1,10})\.([0-9]{1,12})\.([0-9]{1,12})"
_CURSOR: Final = re.compile(f"{_POSITION}-{_POSITION}")


class LogCursor(NamedTuple):
    """How far a reader has come in both streams."""

    output: LogPosition = LogPosition()
    errors: LogPosition = LogPosition()

    def __str__(self) -> str:
        return "-".join(".".join(map(str, position)) for position in self)


def parse_cursor(text: str) -> LogCursor | None:
    """None if no page has ever had this cursor."""
    match = _CURSOR.fullmatch(text)
    if match is None:
        return None
    numbers = [int(number) for number in match.groups()]
    return LogCursor(LogPosition(*numbers[:3]), LogPosition(*numbers[3:]))


class NumberedLine(NamedTuple):
    """`number` is that of the line in its stream."""

    number: int
    line: AgentLine


class AgentLogPage(NamedTuple):
    """`more`: the next page has lines already."""

    lines: list[NumberedLine]
    cursor: LogCursor
    more: bool


class _Page:
    def __init__(self, lines_max: int) -> None:
        self.lines: list[NumberedLine] = []
        self._lines_max = lines_max
        self._characters = 0
        self._lines_read = 0

    @property
    def is_full(self) -> bool:
        return (
            len(self.lines) >= self._lines_max
            or self._characters >= PAGE_CHARACTERS_MAX
            or self._lines_read >= LINES_READ_MAX
        )

    def add(self, number: int, lines: list[AgentLine]) -> None:
        """The displayed part of one line of the log."""
        self._lines_read += 1
        self.lines += [NumberedLine(number, line) for line in lines]
        self._characters += sum(len(line.text) for line in lines)


def read_agent_log(
    record: AttemptRecord, cursor: LogCursor | None, lines_max: int, *, is_live: bool, tail: bool
) -> AgentLogPage:
    """The lines after the cursor. Without one, from the beginning, or with `tail` the last ones.
    New output comes before new errors, as in `shiftboss logs`."""
    page = _Page(lines_max)
    with LogPages(record.output) as output, LogPages(record.errors) as errors:
        at, lines = _start(output, None if cursor is None else cursor.output, tail=tail)
        agent_lines = AgentLines.of(record)
        for line in output.lines_before(at, _REMEMBERED_BYTES, _REMEMBERED_LINES):
            agent_lines.read(line.text)
        output_end, output_more = _fill(page, output, at, lines, agent_lines.read, not is_live)
        at, lines = _start(errors, None if cursor is None else cursor.errors, tail=tail)
        errors_end, errors_more = _fill(page, errors, at, lines, _error_lines, not is_live)
    return AgentLogPage(
        page.lines, LogCursor(output_end, errors_end), more=output_more or errors_more
    )


def _start(log: LogPages, position: LogPosition | None, *, tail: bool) -> tuple[int, int]:
    if position is not None:
        return log.find(position), position.lines
    return log.near_end(_TAIL_BYTES) if tail else (0, 0)


def _fill(
    page: _Page,
    log: LogPages,
    at: int,
    number: int,
    read: Callable[[str], list[AgentLine]],
    to_end: bool,
) -> tuple[LogPosition, bool]:
    """How far the page has got, and whether there is more."""
    for line in log.lines_from(at, number, to_end=to_end):
        if page.is_full:
            break
        page.add(line.number, read(line.text))
        at, number = line.end, line.number
    more = at < log.size and any(True for _ in log.lines_from(at, number, to_end=to_end))
    return log.position(at, number), more


def _error_lines(line: str) -> list[AgentLine]:
    return [error_line(line)]
