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
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from shiftboss.orchestrator.run.progress import LINES_KEPT, Progress, TaskProgress
from shiftboss.system.private_files import write_private

PROGRESS_SECONDS: Final = 0.5
_RUN: Final = "run.json"
_PROGRESS: Final = "progress.json"
_OUTCOME: Final = "outcome.json"

T = TypeVar("T")


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
    return _read(folder / _RUN, lambda members: RunFacts(**members))


def write_result(folder: Path, exit_code: int, outcome: dict[str, Any]) -> None:
    _write(folder / _OUTCOME, RunResult(os.getpid(), exit_code, outcome)._asdict())


def read_result(folder: Path) -> RunResult | None:
    return _read(folder / _OUTCOME, lambda members: RunResult(**members))


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
    rows_and_lines = _read(
        folder / _PROGRESS,
        lambda members: ([TaskProgress(**row) for row in members["rows"]], members["lines"]),
    )
    if rows_and_lines is not None:
        rows, lines = rows_and_lines
        progress.rows = {row.bead_id: row for row in rows}
        progress.lines = deque(lines, maxlen=LINES_KEPT)


def _write(file: Path, members: Mapping[str, Any]) -> None:
    """A full disk must not stop the run."""
    with contextlib.suppress(OSError):
        write_private(file, json.dumps(members))


def _read(file: Path, parse: Callable[[dict[str, Any]], T]) -> T | None:
    try:
        return parse(json.loads(file.read_text()))
    except (OSError, ValueError, TypeError, KeyError):
        return None
