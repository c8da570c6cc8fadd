"""The output of a task's agents, from the folder of its run on this machine.

The files are written by the run and by its agents. A request names a swarm and a task, never a
path.
"""

from __future__ import annotations

import shlex
from datetime import datetime
from pathlib import Path

from shiftboss.attempts.agent_log import LogCursor, NumberedLine, parse_cursor, read_agent_log
from shiftboss.attempts.records import AttemptRecord, attempts_in
from shiftboss.defaults import RUNS_FOLDER
from shiftboss.errors import InvalidRequest, NotFound
from shiftboss.protocol.history import AttemptView, LogAnswer, LogLineView, ReadLogRequest


def read_log(state: Path | None, request: ReadLogRequest) -> LogAnswer:
    """Reads files: call it in a thread."""
    cursor = None if request.after is None else _cursor(request.after)
    records = [] if state is None else attempts_in(state, request.bead_id, request.swarm_id)
    command = f"shiftboss logs {request.bead_id} --swarm {request.swarm_id}"
    if not records:
        return LogAnswer(available=False, reason=_why_not(state, request), command=command)
    record = _chosen(records, request)
    is_live = record.is_live  # asked before the files are read, so that its last output is included
    page = read_agent_log(record, cursor, request.limit, is_live=is_live, tail=request.tail)
    return LogAnswer(
        epoch=record.epoch,
        attempts=[_attempt_view(each) for each in records],
        lines=[_line_view(line) for line in page.lines],
        next=str(page.cursor),
        more=page.more,
        live=is_live,
        available=True,
        command=f"{command} --attempt {record.epoch}",
    )


def _cursor(text: str) -> LogCursor:
    cursor = parse_cursor(text)
    if cursor is None:
        raise InvalidRequest("after: must be the next of another page", field="after")
    return cursor


def _chosen(records: list[AttemptRecord], request: ReadLogRequest) -> AttemptRecord:
    chosen = [record for record in records if request.epoch in (None, record.epoch)]
    if chosen:
        return chosen[-1]
    numbers = ", ".join(str(record.epoch) for record in records)
    raise NotFound(
        f"attempt {request.epoch} of {request.bead_id} has no folder on the server's machine",
        field="epoch",
        hint=f"these attempts have one: {numbers}",
    )


def _why_not(state: Path | None, request: ReadLogRequest) -> str:
    if state is None:
        return "this server has no state folder, in which runs keep the output of their agents"
    folder = shlex.quote(str(state / RUNS_FOLDER / request.swarm_id))
    return (
        f"no agent's output of {request.bead_id} is in {folder} on the server's machine: no run "
        "has started an agent for it there, or `shiftboss clean` has removed it"
    )


def _attempt_view(record: AttemptRecord) -> AttemptView:
    facts = record.facts
    return AttemptView(
        epoch=record.epoch,
        agent=record.settings.kind,
        model=facts.get("model"),
        started_at=_milliseconds(facts.get("started_at")),
        ended_at=_milliseconds(facts.get("ended_at")),
    )


def _milliseconds(text: str | None) -> int | None:
    """None for what no run has written: an agent can write the record."""
    try:
        return None if text is None else int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def _line_view(line: NumberedLine) -> LogLineView:
    return LogLineView(n=line.number, kind=line.line.kind, text=line.line.text)
