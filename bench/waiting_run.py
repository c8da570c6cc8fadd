"""What a run costs while a hundred of its agents wait: orchestrator, server and guardians."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import psutil

from bench.figures import Figure
from bench.large_repo import commit, git
from bench.plan_run import plan_task, running

AGENTS = 100
START_SECONDS_MAX = 300.0
# By then the guardians have noticed that nothing happens, and check rarely.
SETTLING_SECONDS = 15.0
WATCHED_SECONDS = 30.0
_WAITING = "3599"


def run(folder: Path, seconds: float = WATCHED_SECONDS, agents: int = AGENTS) -> list[Figure]:
    workspace = folder / "waiting-run"
    _make_repo(workspace / "repo")
    plan = {
        "agents": {"idle": {"kind": "command", "command": ["sleep", _WAITING]}},
        "agent": "idle",
        "workers": agents,
        "tasks": [plan_task(f"task-{number}") for number in range(agents)],
    }
    with running(workspace, plan) as process:
        _wait_until_all_agents_run(process, agents)
        time.sleep(SETTLING_SECONDS)
        before, started_at = _cpu_seconds(process), time.monotonic()
        time.sleep(seconds)
        core = (_cpu_seconds(process) - before) / (time.monotonic() - started_at)
    return [Figure(f"a run with {agents} waiting agents, of one core", core * 100, "%", at_most=5)]


def _make_repo(repo: Path) -> None:
    repo.mkdir(parents=True)
    git(repo, "init", "--quiet", "--initial-branch=main")
    (repo / "read.me").write_text("hello\n")
    commit(repo, "base")


def _wait_until_all_agents_run(process: subprocess.Popen[str], agents: int) -> None:
    end = time.monotonic() + START_SECONDS_MAX
    while len(_processes(process)[1]) < agents:
        assert time.monotonic() < end, "the agents are not started"
        assert process.poll() is None, "the run has ended"
        time.sleep(1)


def _processes(process: subprocess.Popen[str]) -> tuple[list[psutil.Process], list[psutil.Process]]:
    """The processes of Shiftboss, and the agents."""
    ours, agents = [psutil.Process(process.pid)], list[psutil.Process]()
    for child in psutil.Process(process.pid).children(recursive=True):
        try:
            (agents if _WAITING in child.cmdline() else ours).append(child)
        except psutil.NoSuchProcess:
            continue
    return ours, agents


def _cpu_seconds(process: subprocess.Popen[str]) -> float:
    times = [shiftboss.cpu_times() for shiftboss in _processes(process)[0]]
    return float(sum(used.user + used.system for used in times))
