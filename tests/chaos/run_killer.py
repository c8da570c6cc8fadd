"""Kills the processes of a run again and again."""

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
from tests.kill_with_parent import KillWithParent
from tests.plan_runs import QUICK_PYTHON, PlanProject, task
from tests.waiting import wait_until

AGENT = Path(__file__).with_name("slow_agent.py")
SWARM = "chaos"
# Between two kills.
PAUSE_SECONDS = (0.5, 3.0)
# How often each kind is killed in one round.
KINDS = {"agent": 5, "guardian": 4, "server": 3, "evidence": 3, "orchestrator": 2}
_COMMAND_LINES = {
    "agent": str(AGENT),
    "evidence": "shiftboss.evidence.subprocess.main",
    "guardian": "shiftboss.orchestrator.guardian.main",
    "server": " serve ",
}


class RunKiller:
    """Runs `shiftboss run`, and restarts it when it was killed. `killed` counts the kills."""

    def __init__(
        self, project: PlanProject, tasks: int, workers: int, work_seconds: float, seed: int
    ) -> None:
        self.project = project
        self._work_seconds = work_seconds
        self.names = [f"t{number:02}" for number in range(tasks)]
        self.killed: Counter[str] = Counter()
        self._random = Random(seed)
        self._kinds_left: list[str] = []
        self._runs = 0
        project.plan(
            *(task(name, *self._needs(number)) for number, name in enumerate(self.names)),
            agents={"script": {"kind": "command", "command": [*QUICK_PYTHON, str(AGENT)]}},
            workers=workers,
            attempts=20,
            swarm=SWARM,
        )
        self._start()

    def _needs(self, number: int) -> list[str]:
        """A third of the tasks depend on an earlier one."""
        return [self.names[number - 2]] if number >= 3 and number % 3 == 0 else []

    def _start(self) -> None:
        argv = [sys.executable, "-m", "shiftboss.cli.main", "run", "plan.yaml", "--own-server"]
        self._runs += 1
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*argv, "--trees", str(self.project.trees)],
                cwd=self.project.folder,
                env=self.project.environment() | {"CHAOS_WORK_SECONDS": str(self._work_seconds)},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._killer = KillWithParent(self._process.pid)

    @property
    def _log(self) -> Path:
        return self.project.folder / f"run-{self._runs}.log"

    def kill_for(self, seconds: float) -> None:
        """Kill a process every few seconds, until the time is over or the run has ended."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self._has_ended_within(
            self._random.uniform(*PAUSE_SECONDS)
        ):
            self._kill_next()

    def _has_ended_within(self, seconds: float) -> bool:
        """Whether the run ends within this time."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _kill_next(self) -> None:
        """Kill a process of the next kind that is running. The order differs in each round."""
        if not self._kinds_left:
            self._kinds_left = [kind for kind, count in KINDS.items() for _ in range(count)]
            self._random.shuffle(self._kinds_left)
        processes_by_kind = self._running_processes()
        kind = next((kind for kind in self._kinds_left if kind in processes_by_kind), None)
        if kind is None:
            return
        self._kinds_left.remove(kind)
        self._kill(kind, self._random.choice(processes_by_kind[kind]))

    def kill_one(self, kind: str) -> bool:
        """Kill a process of that kind as soon as there is one. False: the run has ended."""
        while not self._has_ended_within(self._random.uniform(*PAUSE_SECONDS)):
            pids = self._running_processes().get(kind)
            if pids:
                self._kill(kind, self._random.choice(pids))
                return True
        return False

    def _kill(self, kind: str, pid: int) -> None:
        self.killed[kind] += 1
        _kill(pid)
        if kind == "orchestrator":
            self._process.wait(30)
            self._killer.release()
            self._start()

    def _running_processes(self) -> dict[str, list[int]]:
        processes_by_kind: dict[str, list[int]] = {"orchestrator": [self._process.pid]}
        for process in psutil.Process(self._process.pid).children(recursive=True):
            line = " ".join(_command_line(process))
            kind = next((kind for kind, text in _COMMAND_LINES.items() if text in line), None)
            if kind is not None:
                processes_by_kind.setdefault(kind, []).append(process.pid)
        return processes_by_kind

    def finish(self, seconds: float) -> None:
        """Stop killing. The run must end successfully."""
        ended = self._has_ended_within(seconds)
        output = self._log.read_text(errors="replace")[-6000:]
        assert ended, f"the run does not end:\n{output}"
        self._killer.release()
        assert self._process.returncode == 0, output

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(30)
            self._killer.release()
            wait_until(lambda: not self.left_over(), "all processes have ended", 30)

    def left_over(self) -> list[str]:
        """The processes that carry the mark of the run, or use the folder of the project."""
        mark = f"{RUN_MARK}={run_mark(self.project.folder / '.shiftboss', SWARM)}"
        left = []
        for process in psutil.process_iter():
            texts = [*_command_line(process), *_folder_and_variables(process)]
            belongs = any(mark in text or str(self.project.folder) in text for text in texts)
            if belongs and process.pid != os.getpid():
                left.append(f"{process.pid} {texts[:12]}")
        return left


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


def _folder_and_variables(process: psutil.Process) -> list[str]:
    """Its working folder and environment, if they can be read."""
    try:
        return [process.cwd(), *(f"{name}={value}" for name, value in process.environ().items())]
    except (psutil.Error, OSError):
        return []
