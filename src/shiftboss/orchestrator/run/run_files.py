"""What a run keeps in its folder for people who look at it from outside: `shiftboss run --attach`,
`logs` and `clean`.

`run.json` says where it came from, `progress.json` is its table, `outcome.json` how it ended. All
of them are replaced as a whole, so that readers never see half of one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, NamedTuple

from shiftboss.orchestrator.run.progress import LINES_KEPT, Progress, TaskProgress
from shiftboss.system.json_files import has_types, read_json_object
from shiftboss.system.private_files import write_private

PROGRESS_SECONDS: Final = 0.5
_RUN: Final = "run.json"
_PROGRESS: Final = "progress.json"
_OUTCOME: Final = "outcome.json"
# A plan may have thousands of tasks.
_TABLE_BYTES_MAX: Final = 64 * 1024 * 1024

_TEXT_OR_NONE: Final = (str, type(None))
_NUMBER_OR_NONE: Final = (int, float, type(None))
_ROW_TYPES: Final[Mapping[str, type | tuple[type, ...]]] = {
    "bead_id": str,
    "title": str,
    "stage": str,
    "worker": _TEXT_OR_NONE,
    "agent": _TEXT_OR_NONE,
    "attempt": int,
    "doing": str,
    "tokens": int,
    "dollars": (int, float),
    "receipt_id": _TEXT_OR_NONE,
    "waived": _TEXT_OR_NONE,
    "unverified": _TEXT_OR_NONE,
    "landed": _TEXT_OR_NONE,
    "error": _TEXT_OR_NONE,
    "started_at": _NUMBER_OR_NONE,
    "ended_at": _NUMBER_OR_NONE,
}


class RunFacts(NamedTuple):
    """`plan` is the file of the plan, `address` that of the server. `started_at` is in seconds
    since 1970."""

    plan: str
    address: str
    started_at: float


class RunResult(NamedTuple):
    """How the run of the process `pid` ended."""

    pid: int
    exit_code: int
    outcome: dict[str, Any]


def write_run_facts(folder: Path, plan: Path | None, address: str) -> None:
    facts = RunFacts("" if plan is None else str(plan), address, time.time())
    _write(folder / _RUN, facts._asdict())


def read_run_facts(folder: Path) -> RunFacts | None:
    members = read_json_object(
        folder / _RUN, {"plan": str, "address": str, "started_at": (int, float)}
    )
    if members is None:
        return None
    return RunFacts(members["plan"], members["address"], members["started_at"])


def write_result(folder: Path, exit_code: int, outcome: dict[str, Any]) -> None:
    _write(folder / _OUTCOME, RunResult(os.getpid(), exit_code, outcome)._asdict())


def read_result(folder: Path) -> RunResult | None:
    members = read_json_object(
        folder / _OUTCOME,
        {"pid": int, "exit_code": int, "outcome": dict},
        bytes_max=_TABLE_BYTES_MAX,
    )
    if members is None:
        return None
    return RunResult(members["pid"], members["exit_code"], members["outcome"])


async def keep_progress(folder: Path, progress: Progress) -> None:
    """Keep `progress.json` up to date, until it is cancelled."""
    written: dict[str, Any] = {}
    try:
        while True:
            snapshot = _snapshot(progress)
            if snapshot != written:
                await asyncio.to_thread(_write, folder / _PROGRESS, snapshot)
                written = snapshot
            await asyncio.sleep(PROGRESS_SECONDS)
    finally:
        _write(folder / _PROGRESS, _snapshot(progress))


def _snapshot(progress: Progress) -> dict[str, Any]:
    rows = [asdict(row) for row in progress.rows.values()]
    return {"rows": rows, "lines": list(progress.lines)}


def read_progress(folder: Path, progress: Progress) -> None:
    """Bring the progress up to date with the file. It stays as it is if there is no file."""
    members = read_json_object(
        folder / _PROGRESS, {"rows": list, "lines": list}, bytes_max=_TABLE_BYTES_MAX
    )
    if members is None:
        return
    rows = [row for row in map(_row, members["rows"]) if row is not None]
    lines = [line for line in members["lines"] if isinstance(line, str)]
    progress.rows = {row.bead_id: row for row in rows}
    progress.lines = deque(lines, maxlen=LINES_KEPT)


def _row(members: object) -> TaskProgress | None:
    """None unless a run can have written it."""
    if not isinstance(members, dict) or not {"bead_id", "title"} <= members.keys():
        return None
    if not members.keys() <= _ROW_TYPES.keys():
        return None
    types = {name: _ROW_TYPES[name] for name in members}
    return TaskProgress(**members) if has_types(members, types) else None


def _write(file: Path, members: Mapping[str, Any]) -> None:
    """A full disk must not stop the run."""
    with contextlib.suppress(OSError):
        write_private(file, json.dumps(members))
