"""Everything of a run is killed every few seconds: all work lands once, and nothing is left behind.

The full storm: `SHIFTBOSS_CHAOS_SECONDS=120 pytest tests/chaos/test_run_chaos.py -n0`.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from shiftboss.evidence.receipts import read_receipt, verify_receipt
from tests.acceptance.bus.bus import ask
from tests.chaos.run_storm import KINDS, SWARM, Storm
from tests.client import Client
from tests.plan_runs import PlanRoom
from tests.running import RunningServer
from tests.waiting import wait_until

SECONDS = float(os.environ.get("SHIFTBOSS_CHAOS_SECONDS", "25"))
IS_FULL = SECONDS >= 120
TASKS, WORKERS, WORK_SECONDS = (50, 8, 10.0) if IS_FULL else (16, 4, 1.5)
SEED = int(os.environ.get("SHIFTBOSS_CHAOS_SEED", "6"))
FINISH_SECONDS = 110.0 + SECONDS


@pytest.fixture
def storm(tmp_path: Path) -> Iterator[Storm]:
    storm = Storm(PlanRoom(tmp_path), TASKS, WORKERS, WORK_SECONDS, SEED)
    try:
        yield storm
    finally:
        storm.close()


@pytest.mark.timeout(2 * FINISH_SECONDS)
@pytest.mark.requirement("OWN-01", "OWN-02", "CC-11")
def test_whatever_is_killed_all_work_lands_once_and_nothing_is_left(storm: Storm) -> None:
    storm.blow(SECONDS)
    storm.finish(FINISH_SECONDS)
    print(f"killed {dict(storm.killed)}")
    assert set(storm.killed) == set(KINDS) or not IS_FULL, "some were spared"
    assert sum(storm.killed.values()) > SECONDS / 5, "only a breeze"
    wait_until(lambda: not storm.left_over(), f"nobody is left: {storm.left_over()}", 30)
    check_history(storm)
    check_folders(storm.room)
    check_server(storm)


def check_history(storm: Storm) -> None:
    """Every task is on main once, and what agents have ever committed is held by some ref."""
    room = storm.room
    landed = Counter(room.landed())
    assert [name for name in storm.names if landed[f"Add {name}"] != 1] == []
    assert room.git("status", "--porcelain") == ""
    assert room.git("branch", "--list", "shiftboss/*") == ""
    committed = [line.split()[1] for line in (room.marks / "commits").read_text().splitlines()]
    held = set(room.git("rev-list", "--all", "--glob=refs/shiftboss/*").split())
    assert [commit for commit in committed if commit not in held] == []
    subprocess.run(["git", "fsck", "--strict"], cwd=room.repo, check=True, capture_output=True)


def check_folders(room: PlanRoom) -> None:
    """No work tree, no lock of git, nothing half made."""
    assert room.work_trees == []
    assert [*room.trees.glob(f"{SWARM}/*"), *room.trees.glob(".gone/*")] == []
    git = room.repo / ".git"
    locks = [one for one in git.rglob("*.lock") if one.parent.name != "shiftboss"]
    assert locks == []
    own = [one.name for one in (git / "shiftboss").iterdir() if one.suffix != ".lock"]
    assert own == []
    assert room.git("for-each-ref", "refs/shiftboss/landing") == ""


def check_server(storm: Storm) -> None:
    """The database is free, each task landed once, and every receipt is good."""
    server = RunningServer(storm.room.folder / ".shiftboss" / "shiftboss.db")
    try:
        client = Client(server.start().url)
        events = client.stored_events(SWARM)
        told = Counter(one.data["bead_id"] for one in events if one.kind == "task_landed")
        assert told == Counter(storm.names)
        done = Counter(one.data["bead_id"] for one in events if one.kind == "task_done")
        assert done == Counter(storm.names)
        key = ask(client, "list_receipts")["public_key"]
        for name in storm.names:
            signed = ask(client, "show_receipt", bead_id=name, swarm_id=SWARM)["signed_receipt"]
            verify_receipt(read_receipt(json.dumps(signed).encode()), key)
        client.close()
        server.stop()
    finally:
        server.close()
