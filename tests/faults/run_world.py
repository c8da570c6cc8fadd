"""Faults of the processes of a plan run, from the orchestrator to the agents."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random

from tests.chaos.run_checks import check_folders, check_landed, check_server
from tests.chaos.run_killer import KINDS, SWARM, RunKiller
from tests.plan_runs import PlanProject
from tests.waiting import wait_until

TASKS, WORKERS, WORK_SECONDS = 12, 4, 1.0
FINISH_SECONDS = 240.0


class RunWorld:
    """A run lasts for several rounds. When it has ended, all of its work must be there once, and
    the next round begins another one."""

    name = "a plan run"

    def __init__(self, folder: Path, random: Random) -> None:
        self._folder = folder
        self._random = random
        self._runs = 0
        self._killer: RunKiller | None = None
        self.faults: Mapping[str, Callable[[], None]] = {
            f"kill the {kind}": partial(self._kill, kind) for kind in KINDS
        }

    def round(self, kind: str) -> None:
        self.faults[kind]()
        self._check_events()

    def close(self) -> None:
        if self._killer is not None:
            killer, self._killer = self._killer, None
            try:
                self._finish(killer)
            finally:
                killer.close()

    def _kill(self, kind: str) -> None:
        while self._killer is None or not self._killer.kill_one(kind):
            if self._killer is not None:
                killer, self._killer = self._killer, None
                self._finish(killer)
            self._begin()

    def _begin(self) -> None:
        self._runs += 1
        folder = self._folder / f"run-{self._runs}"
        folder.mkdir()
        seed = self._random.randrange(1 << 30)
        self._killer = RunKiller(PlanProject(folder), TASKS, WORKERS, WORK_SECONDS, seed)

    def _finish(self, killer: RunKiller) -> None:
        killer.finish(FINISH_SECONDS)
        wait_until(lambda: not killer.left_over(), "no process is left", 60)
        check_landed(killer)
        check_folders(killer.project)
        check_server(killer)

    def _check_events(self) -> None:
        """As they are in the file, while the run goes on: no gap, nothing done or landed twice."""
        assert self._killer is not None
        file = self._killer.project.folder / ".shiftboss" / "shiftboss.db"
        if not file.exists():
            return
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=30)) as database:
            rows = database.execute(
                "SELECT event_id, kind, data FROM events WHERE swarm_id = ? ORDER BY event_id",
                (SWARM,),
            ).fetchall()
        assert [row[0] for row in rows] == list(range(1, len(rows) + 1))
        for kind in ("task_done", "task_landed"):
            counts = Counter(json.loads(row[2])["bead_id"] for row in rows if row[1] == kind)
            assert all(count == 1 for count in counts.values()), counts
