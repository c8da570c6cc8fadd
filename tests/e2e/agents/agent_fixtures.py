"""Agents for tests: Python programs in a tree, run by a guardian."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil

from shiftboss.agents.launch import Launch
from shiftboss.orchestrator.guardian.agent_process import (
    RUN_MARK,
    AgentProcess,
    Exit,
    ProcessLimits,
    run_mark,
)
from tests.e2e.evidence.signing import VARIABLE, Signed
from tests.waiting import wait_until

KILLED = Exit(None, "killed", "was ended")
DEAF = "import signal\nfor n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\n"


def touch(name: str) -> str:
    return f"import pathlib; pathlib.Path({name!r}).touch()\n"


class AgentHost(Signed):
    """The processes of its agents are recognised by a variable they inherit."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.tree = folder / "tree"
        self.tree.mkdir()
        self.log = folder / "scratch" / "output.log"
        self.log.parent.mkdir()
        self.mark = run_mark(folder, "swarm", "task.1")
        self.environment = {
            "PATH": os.environ["PATH"],
            VARIABLE: self.sign,
            RUN_MARK: self.mark,
        }

    def launch(self, program: str, stdin: bytes = b"") -> Launch:
        argv = [sys.executable, "-I", "-S", "-c", program]
        return Launch(argv, self.tree, self.environment, stdin)

    async def start(self, program: str, stdin: bytes = b"", **limits: int) -> AgentProcess:
        return await AgentProcess.start(
            self.launch(program, stdin), self.log, ProcessLimits(**limits)
        )

    def is_there(self, name: str) -> bool:
        return (self.tree / name).exists()

    def guardians(self) -> list[psutil.Process]:
        return [process for process in psutil.process_iter() if self._guards(process)]

    def _guards(self, process: psutil.Process) -> bool:
        try:
            return f"{RUN_MARK}={self.mark}" in process.cmdline()
        except psutil.Error:
            return False


def agent_room(folder: Path) -> Iterator[AgentHost]:
    """Checks at the end that nothing is left, for a fixture."""
    host = AgentHost(folder)
    try:
        yield host
        assert host.processes() == []
        wait_until(lambda: host.guardians() == [], "no guardian is left")
    finally:
        host.kill_all()
        for guardian in host.guardians():
            guardian.kill()


async def lines_of(process: AgentProcess) -> list[str]:
    """All lines, until the agent has exited."""
    lines = [line async for line in process.lines()]
    await process.wait()
    return lines
