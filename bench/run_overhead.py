"""What a run costs per task in addition to the agent's work, in a repository of 10,000 files.

The tasks form a chain: each begins when the previous one has landed, and nothing else runs. The
time from one landing to the next is the time of the orchestrator and the server, and the moment
that the agent needs to commit one file.
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
    """The parts of one task, in milliseconds."""

    starting: float
    preparing: float
    agent: float
    claiming: float
    verifying: float
    landing: float


def run(folder: Path, tasks: int = TASKS) -> list[Figure]:
    workspace = folder / "overhead"
    make_repo(workspace / "repo")
    git(workspace / "repo", "config", "user.name", "Bench")
    git(workspace / "repo", "config", "user.email", "bench@shiftboss.invalid")
    # New names: ext4 puts a folder where one of the same name was deleted, and is slow to reuse
    # such a place.
    names = [f"task-{token_hex(4)}" for _ in range(tasks)]
    plan = {
        "agents": {"one": {"kind": "command", "command": [sys.executable, "-IS", str(AGENT)]}},
        "agent": "one",
        "workers": 1,
        "tasks": [plan_task(names[0]), *(plan_task(b, a) for a, b in pairwise(names))],
    }
    with running(workspace, plan) as process:
        out, _ = process.communicate(timeout=RUN_SECONDS_MAX)
    assert json.loads(out)["done"], out
    parts = _parts(workspace, names)
    return [
        Figure("a task of a run, 10,000 files", median(map(sum, parts)), "ms", at_most=2000),
        *(
            Figure(f"of that: {name}", median(values), "ms")
            for name, values in zip(Parts._fields, zip(*parts, strict=True), strict=True)
        ),
    ]


def _parts(workspace: Path, names: list[str]) -> list[Parts]:
    """Of all tasks except the first, which copies the repository."""
    at = _events(workspace / ".shiftboss" / "shiftboss.db")
    parts = []
    for before, name in pairwise(names):
        began, ended = (float(seconds) * 1000 for seconds in (workspace / name).read_text().split())
        parts.append(
            Parts(
                starting=at[name, "task_started"] - at[before, "task_landed"],
                preparing=began - at[name, "task_started"],
                agent=ended - began,
                claiming=at[name, "claim_made"] - ended,
                verifying=at[name, "task_done"] - at[name, "claim_made"],
                landing=at[name, "task_landed"] - at[name, "task_done"],
            )
        )
    return parts


def _events(database: Path) -> dict[tuple[str, str], int]:
    """The time of each kind of event of each task."""
    query = "SELECT json_extract(data, '$.bead_id'), kind, at_ms FROM events WHERE swarm_id = ?"
    with closing(sqlite3.connect(database)) as connection:
        return {(task, kind): at for task, kind, at in connection.execute(query, [SWARM])}
