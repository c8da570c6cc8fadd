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
# Until their guardians have seen that nothing happens, and look rarely.
SETTLING_SECONDS = 15.0
WATCHED_SECONDS = 30.0
_WAITING = "3599"


def run(folder: Path, seconds: float = WATCHED_SECONDS, agents: int = AGENTS) -> list[Figure]:
    room = folder / "waiting-run"
    _make_repo(room / "repo")
    plan = {
        "agents": {"idle": {"kind": "command", "command": ["sleep", _WAITING]}},
        "agent": "idle",
        "workers": agents,
        "tasks": [plan_task(f"task-{number}") for number in range(agents)],
    }
    with running(room, plan) as process:
        _until_all_wait(process, agents)
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


def _until_all_wait(process: subprocess.Popen[str], agents: int) -> None:
    end = time.monotonic() + START_SECONDS_MAX
    while len(_all(process)[1]) < agents:
        assert time.monotonic() < end, "the agents are not started"
        assert process.poll() is None, "the run has ended"
        time.sleep(1)


def _all(process: subprocess.Popen[str]) -> tuple[list[psutil.Process], list[psutil.Process]]:
    """What is ours, and the agents: whatever those do is theirs."""
    ours, agents = [psutil.Process(process.pid)], list[psutil.Process]()
    for one in psutil.Process(process.pid).children(recursive=True):
        try:
            (agents if _WAITING in one.cmdline() else ours).append(one)
        except psutil.NoSuchProcess:
            continue
    return ours, agents


def _cpu_seconds(process: subprocess.Popen[str]) -> float:
    times = [one.cpu_times() for one in _all(process)[0]]
    return float(sum(one.user + one.system for one in times))
