"""How long reports take while the server verifies ten claims, beside how long they take else."""

from __future__ import annotations

import subprocess
from pathlib import Path
from statistics import median

from bench.load import Load, Result
from bench.running import Server, run_load, shiftboss

CLAIMS = 10
CONNECTIONS = 8
REPORTS = 2400
SWARM = "bench"


def p99_ratio(folder: Path, repo: Path, base: str, criterion: str, rounds: int) -> float:
    """Of the 99th percentiles, with and without, in turns. `repo` has the work on branch `task`."""
    folder.mkdir()
    clones = [_clone(repo, folder / f"clone-{number}.git") for number in range(CLAIMS)]
    with shiftboss(folder / "bench.db") as server:
        server.prepare(SWARM, CONNECTIONS)
        ratios = []
        for number in range(rounds):
            alone = _load(server, 2 * number)
            tasks = [_spawn(server, clone, base, criterion, number) for clone in clones]
            for task in tasks:
                server.post("/bus/swarm_complete", {"bead_id": task, "wait_ms": 0})
            beside = _load(server, 2 * number + 1)
            ratios.append(beside.p99_ms / alone.p99_ms)
            _check(server, tasks)
    return median(ratios)


def _clone(repo: Path, clone: Path) -> Path:
    """Each claim has a repository of its own: no two tasks own the same files."""
    subprocess.run(
        ["git", "clone", "--quiet", "--bare", "--shared", str(repo), str(clone)], check=True
    )
    return clone


def _load(server: Server, number: int) -> Result:
    return run_load(Load(server.url, SWARM, CONNECTIONS, REPORTS, number * REPORTS))


def _spawn(server: Server, clone: Path, base: str, criterion: str, number: int) -> str:
    task = f"{clone.stem}-{number}"
    server.post(
        "/bus/swarm_spawn_subtask",
        {
            "bead_id": task,
            "subtask_title": task,
            "files": ["src/*/part_*.py", "src/**/new_*.py"],
            "files_readonly": [],
            "success_criteria": [criterion],
            "repo": str(clone),
            "base": base,
            "branch": "task",
            "target": "main",
        },
    )
    return task


def _check(server: Server, tasks: list[str]) -> None:
    """The load was over first, and every claim is accepted in the end."""
    last = server.post("/bus/show_task", {"bead_id": tasks[-1]})
    assert last["state"] == "verifying", "the claims were verified before the load was over"
    for task in tasks:
        server.post("/bus/swarm_complete", {"bead_id": task, "wait_ms": 120_000})
