"""The processes of a run are killed every few seconds: all work lands once, nothing is left behind.

The full test: `SHIFTBOSS_CHAOS_SECONDS=120 pytest tests/chaos/test_run_chaos.py -n0`.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from shiftboss.evidence.receipt_verification import read_receipt, verify_receipt
from tests.acceptance.bus.bus import ask
from tests.chaos.run_killer import KINDS, SWARM, RunKiller
from tests.client import Client
from tests.plan_runs import PlanProject
from tests.running import RunningServer
from tests.waiting import wait_until

SECONDS = float(os.environ.get("SHIFTBOSS_CHAOS_SECONDS", "25"))
IS_FULL = SECONDS >= 120
TASKS, WORKERS, WORK_SECONDS = (50, 8, 10.0) if IS_FULL else (12, 4, 1.5)
SEED = int(os.environ.get("SHIFTBOSS_CHAOS_SEED", "6"))
FINISH_SECONDS = 110.0 + SECONDS


@pytest.fixture
def run_killer(tmp_path: Path) -> Iterator[RunKiller]:
    run_killer = RunKiller(PlanProject(tmp_path), TASKS, WORKERS, WORK_SECONDS, SEED)
    try:
        yield run_killer
    finally:
        run_killer.close()


@pytest.mark.timeout(2 * FINISH_SECONDS)
@pytest.mark.requirement("OWN-01", "OWN-02", "CC-11")
def test_all_work_lands_once_and_nothing_is_left_whichever_process_is_killed(
    run_killer: RunKiller,
) -> None:
    run_killer.kill_for(SECONDS)
    run_killer.finish(FINISH_SECONDS)
    print(f"killed {dict(run_killer.killed)}")
    assert set(run_killer.killed) == set(KINDS) or not IS_FULL, "some kinds were never killed"
    assert sum(run_killer.killed.values()) > SECONDS / 5, "too few kills to prove anything"
    wait_until(
        lambda: not run_killer.left_over(), f"no process is left: {run_killer.left_over()}", 30
    )
    check_history(run_killer)
    check_folders(run_killer.project)
    check_server(run_killer)


def check_history(run_killer: RunKiller) -> None:
    """Every task is on main once, and some ref contains every commit of an agent."""
    project = run_killer.project
    landed = Counter(project.landed())
    assert [name for name in run_killer.names if landed[f"Add {name}"] != 1] == []
    assert project.git("status", "--porcelain") == ""
    assert project.git("branch", "--list", "shiftboss/*") == ""
    committed = [line.split()[1] for line in (project.marks / "commits").read_text().splitlines()]
    reachable = set(project.git("rev-list", "--all", "--glob=refs/shiftboss/*").split())
    assert [commit for commit in committed if commit not in reachable] == []
    subprocess.run(["git", "fsck", "--strict"], cwd=project.repo, check=True, capture_output=True)


def check_folders(project: PlanProject) -> None:
    """No work tree, no lock of git, no temporary file is left."""
    assert project.worktrees == []
    assert [*project.trees.glob(f"{SWARM}/*"), *project.trees.glob(".gone/*")] == []
    git = project.repo / ".git"
    locks = [file for file in git.rglob("*.lock") if file.parent.name != "shiftboss"]
    assert locks == []
    temporary = [file.name for file in (git / "shiftboss").iterdir() if file.suffix != ".lock"]
    assert temporary == []
    assert project.git("for-each-ref", "refs/shiftboss/landing") == ""


def check_server(run_killer: RunKiller) -> None:
    """The database is not locked, each task landed once, and every receipt is genuine."""
    server = RunningServer(run_killer.project.folder / ".shiftboss" / "shiftboss.db")
    try:
        client = Client(server.start().url)
        events = client.stored_events(SWARM)
        landed = Counter(event.data["bead_id"] for event in events if event.kind == "task_landed")
        assert landed == Counter(run_killer.names)
        done = Counter(event.data["bead_id"] for event in events if event.kind == "task_done")
        assert done == Counter(run_killer.names)
        key = ask(client, "list_receipts")["public_key"]
        for name in run_killer.names:
            signed = ask(client, "show_receipt", bead_id=name, swarm_id=SWARM)["signed_receipt"]
            verify_receipt(read_receipt(json.dumps(signed).encode()), key)
        client.close()
        server.stop()
    finally:
        server.close()
