"""shiftboss logs: the output of a task's agent."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from shiftboss.cli.common.attempts import AttemptNumber, find_attempt
from shiftboss.cli.common.options import TaskId, TaskSwarm
from shiftboss.cli.common.output import print_json, print_text, printable

if TYPE_CHECKING:
    from shiftboss.attempts.records import AttemptRecord

POLL_SECONDS: Final = 0.25


def logs(
    task_id: TaskId,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing until the attempt ends.")
    ] = False,
    attempt: AttemptNumber = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Print what the agent printed, unchanged.")
    ] = False,
    swarm: TaskSwarm = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each line as JSON, with its stream.")
    ] = False,
) -> None:
    """Print what the agent of a task says and does, while it works and afterwards.

    It reads files of this machine, in the folder of the run, and asks no server. With several
    rounds in one attempt, their output follows each other.

    \b
    Example:
      shiftboss logs login-form -f
    """
    record = find_attempt(task_id, swarm, attempt)
    lines = _lines(record, follow=follow)
    if as_json:
        for line in lines:
            print_json(json.dumps(line._asdict()).encode())
    elif raw:
        for line in lines:
            if line.stream == "output":
                print_text(line.text)
            else:
                print(printable(line.text), file=sys.stderr, flush=True)
    else:
        _print_for_people(record, lines)


class _Line(NamedTuple):
    stream: str
    text: str


def _print_for_people(record: AttemptRecord, lines: Iterator[_Line]) -> None:
    from shiftboss.attempts.agent_lines import AgentLines, error_line

    agent_lines = AgentLines.of(record)
    is_empty = is_silent = True
    for line in lines:
        is_empty = False
        is_output = line.stream == "output"
        shown_lines = agent_lines.read(line.text) if is_output else [error_line(line.text)]
        for each in shown_lines:
            is_silent = False
            print(each, flush=True)
    if is_silent and not is_empty:
        print("only reports for the run, such as its usage; --raw shows them", file=sys.stderr)
    if is_empty:
        state = "has printed nothing yet" if record.is_live else "printed nothing"
        print(f"attempt {record.epoch} of {record.bead_id} {state}", file=sys.stderr)


def _lines(record: AttemptRecord, *, follow: bool) -> Iterator[_Line]:
    """The lines of both streams. New lines of one come before new lines of the other."""
    from shiftboss.attempts.log_tail import LogTail

    with LogTail(record.output) as output, LogTail(record.errors) as errors:
        is_over = False
        while not is_over:
            # Asked before the files are read: so the last output of the agent is included.
            is_over = not follow or not record.is_live
            for stream, tail in (("output", output), ("errors", errors)):
                for text in tail.new_lines(to_end=is_over):
                    yield _Line(stream, text)
            if not is_over:
                time.sleep(POLL_SECONDS)
