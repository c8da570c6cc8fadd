"""What a run costs for each task beside the work of its agent, in a repository of 10,000 files.

The tasks are a chain, so one begins when the one before it has landed, and nothing goes on beside
it: from one landing to the next is all that the orchestrator and the server take, and the moment
that an agent needs to commit one file.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from secrets import token_hex
from statistics import median
from typing import NamedTuple

from bench.figures import Figure
from bench.large_repo import git, make_repo
from bench.plan_run import SWARM, plan_task, running

TASKS = 9
RUN_SECONDS_MAX = 300
AGENT = Path(__file__).with_name("committing_agent.py")


class Parts(NamedTuple):
    """Of one task, in milliseconds."""

    starting: float
    preparing: float
    agent: float
    claiming: float
    verifying: float
    landing: float


def run(folder: Path, tasks: int = TASKS) -> list[Figure]:
    room = folder / "overhead"
    make_repo(room / "repo")
    git(room / "repo", "config", "user.name", "Bench")
    git(room / "repo", "config", "user.email", "bench@shiftboss.invalid")
    # Names that nobody had before: ext4 puts a folder where one of its name was deleted, and is
    # slow to use such a place again.
    names = [f"task-{token_hex(4)}" for _ in range(tasks)]
    plan = {
        "agents": {"one": {"kind": "command", "command": [sys.executable, "-IS", str(AGENT)]}},
        "agent": "one",
        "workers": 1,
        "tasks": [plan_task(names[0]), *(plan_task(b, a) for a, b in pairwise(names))],
    }
    with running(room, plan) as process:
        out, _ = process.communicate(timeout=RUN_SECONDS_MAX)
    assert json.loads(out)["done"], out
    parts = _parts(room, names)
    return [
        Figure("a task of a run, 10,000 files", median(map(sum, parts)), "ms", at_most=2000),
        *(
            Figure(f"of that: {name}", median(values), "ms")
            for name, values in zip(Parts._fields, zip(*parts, strict=True), strict=True)
        ),
    ]


def _parts(room: Path, names: list[str]) -> list[Parts]:
    """Without the first task, which copies the repository."""
    at = _events(room / ".shiftboss" / "shiftboss.db")
    found = []
    for before, name in pairwise(names):
        began, ended = (float(one) * 1000 for one in (room / name).read_text().split())
        found.append(
            Parts(
                starting=at[name, "task_started"] - at[before, "task_landed"],
                preparing=began - at[name, "task_started"],
                agent=ended - began,
                claiming=at[name, "claim_made"] - ended,
                verifying=at[name, "task_done"] - at[name, "claim_made"],
                landing=at[name, "task_landed"] - at[name, "task_done"],
            )
        )
    return found


def _events(database: Path) -> dict[tuple[str, str], int]:
    """When each kind of event came for each task."""
    query = "SELECT json_extract(data, '$.bead_id'), kind, at_ms FROM events WHERE swarm_id = ?"
    with closing(sqlite3.connect(database)) as connection:
        return {(task, kind): at for task, kind, at in connection.execute(query, [SWARM])}
