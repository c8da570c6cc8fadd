"""A run of a plan in which everything is killed again and again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

import psutil

from shiftboss.orchestrator.guardian.agent_process import RUN_MARK, run_mark
from tests.leash import Leash
from tests.plan_runs import PlanRoom, task
from tests.waiting import wait_until

AGENT = Path(__file__).with_name("stormy_agent.py")
SWARM = "storm"
# Between two kills.
PAUSE_SECONDS = (0.5, 3.0)
# How often each kind is hit in a row of kills.
KINDS = {"agent": 5, "guardian": 4, "server": 3, "evidence": 3, "orchestrator": 2}
_WORDS = {
    "agent": str(AGENT),
    "evidence": "shiftboss.evidence.subprocess.main",
    "guardian": "shiftboss.orchestrator.guardian.main",
    "server": " serve ",
}


class Storm:
    """One `shiftboss run` at a time, started again whenever it was killed. `killed` counts."""

    def __init__(
        self, room: PlanRoom, tasks: int, workers: int, work_seconds: float, seed: int
    ) -> None:
        self.room = room
        self._work_seconds = work_seconds
        self.names = [f"t{number:02}" for number in range(tasks)]
        self.killed: Counter[str] = Counter()
        self._chance = Random(seed)
        self._row: list[str] = []
        self._runs = 0
        room.plan(
            *(task(name, *self._needs(number)) for number, name in enumerate(self.names)),
            agents={"script": {"kind": "command", "command": [sys.executable, str(AGENT)]}},
            workers=workers,
            attempts=20,
            swarm=SWARM,
        )
        self._start()

    def _needs(self, number: int) -> list[str]:
        """A third of the tasks wait for an earlier one."""
        return [self.names[number - 2]] if number >= 3 and number % 3 == 0 else []

    def _start(self) -> None:
        argv = [sys.executable, "-m", "shiftboss.cli.main", "run", "plan.yaml", "--own-server"]
        self._runs += 1
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*argv, "--trees", str(self.room.trees)],
                cwd=self.room.folder,
                env=self.room.environment() | {"STORM_WORK_SECONDS": str(self._work_seconds)},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._leash = Leash(self._process.pid)

    @property
    def _log(self) -> Path:
        return self.room.folder / f"run-{self._runs}.log"

    def blow(self, seconds: float) -> None:
        """Kill something every few seconds, or until the plan has come to its end."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self._waits(self._chance.uniform(*PAUSE_SECONDS)):
            self._strike()

    def _waits(self, seconds: float) -> bool:
        """Whether the run has ended meanwhile."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _strike(self) -> None:
        """The next of the row that is there. The row is mixed anew when it is used up."""
        if not self._row:
            self._row = [kind for kind, count in KINDS.items() for _ in range(count)]
            self._chance.shuffle(self._row)
        found = self._victims()
        kind = next((one for one in self._row if one in found), None)
        if kind is None:
            return
        self._row.remove(kind)
        self.killed[kind] += 1
        _kill(self._chance.choice(found[kind]))
        if kind == "orchestrator":
            self._process.wait(30)
            self._leash.let_go()
            self._start()

    def _victims(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {"orchestrator": [self._process.pid]}
        for process in psutil.Process(self._process.pid).children(recursive=True):
            line = " ".join(_command_line(process))
            kind = next((kind for kind, words in _WORDS.items() if words in line), None)
            if kind is not None:
                found.setdefault(kind, []).append(process.pid)
        return found

    def finish(self, seconds: float) -> None:
        """Nothing is killed any more: the run ends, and well."""
        ended = self._waits(seconds)
        words = self._log.read_text(errors="replace")[-6000:]
        assert ended, f"it does not come to its end:\n{words}"
        self._leash.let_go()
        assert self._process.returncode == 0, words

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(30)
            self._leash.let_go()
            wait_until(lambda: not self.left_over(), "all of it has ended", 30)

    def left_over(self) -> list[str]:
        """Who carries the mark of the run, or has to do with the folder of the room."""
        mark = f"{RUN_MARK}={run_mark(self.room.folder / '.shiftboss', SWARM)}"
        found = []
        for process in psutil.process_iter():
            words = [*_command_line(process), *_surroundings(process)]
            about = any(mark in word or str(self.room.folder) in word for word in words)
            if about and process.pid != os.getpid():
                found.append(f"{process.pid} {words[:12]}")
        return found


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _command_line(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def _surroundings(process: psutil.Process) -> list[str]:
    """Its folder and its variables, where they can be read."""
    try:
        return [process.cwd(), *(f"{name}={it}" for name, it in process.environ().items())]
    except (psutil.Error, OSError):
        return []
