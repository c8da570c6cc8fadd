"""What a hundred agents cost while they wait for a model, a person or a command."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import psutil

from bench.figures import Figure
from shiftboss.agents.launch import Launch
from shiftboss.orchestrator.guardian.agent_process import AgentProcess, ProcessLimits, run_mark

AGENTS = 100
# By then the guardians have noticed that nothing happens, and check rarely.
SETTLING_SECONDS = 15.0
WATCHED_SECONDS = 30.0


def run(folder: Path, seconds: float = WATCHED_SECONDS) -> list[Figure]:
    core, memory = asyncio.run(_wait_for_all(folder / "waiting", seconds))
    return [
        Figure(f"{AGENTS} waiting agents, of one core", core * 100, "%", at_most=5),
        Figure("memory of a guardian", memory, "MB", at_most=16),
    ]


async def _wait_for_all(folder: Path, seconds: float) -> tuple[float, float]:
    """The share of a core that this process and the guardians use, and the megabytes of one."""
    agents = [await _start(folder, number) for number in range(AGENTS)]
    listeners = [asyncio.create_task(_listen(agent)) for agent in agents]
    await asyncio.sleep(SETTLING_SECONDS)
    guardians = psutil.Process().children()
    before = _cpu_seconds(guardians)
    started_at = time.monotonic()
    await asyncio.sleep(seconds)
    core = (_cpu_seconds(guardians) - before) / (time.monotonic() - started_at)
    memory = max(guardian.memory_info().rss for guardian in guardians) / 2**20
    await asyncio.gather(*(agent.end(0) for agent in agents), *listeners)
    return core, memory


async def _start(folder: Path, number: int) -> AgentProcess:
    tree = folder / f"tree-{number}"
    await asyncio.to_thread(tree.mkdir, parents=True)
    environment = {
        "PATH": os.environ["PATH"],
        "SHIFTBOSS_RUN": run_mark(folder, "bench", f"task-{number}.1"),
    }
    launch = Launch(["sleep", "3600"], tree, environment)
    return await AgentProcess.start(launch, folder / f"{number}.log", ProcessLimits())


async def _listen(agent: AgentProcess) -> None:
    async for _ in agent.lines():
        pass


def _cpu_seconds(guardians: list[psutil.Process]) -> float:
    """Of this process and the guardians; the agents themselves do not count."""
    used = time.process_time()
    for guardian in guardians:
        times = guardian.cpu_times()
        used += times.user + times.system
    return used
