"""What must hold after a run whose processes were killed."""

from __future__ import annotations

import json
import subprocess
from collections import Counter

from shiftboss.evidence.receipt_verification import read_receipt, verify_receipt
from tests.acceptance.bus.bus import ask
from tests.chaos.run_killer import SWARM, RunKiller
from tests.client import Client
from tests.plan_runs import PlanProject
from tests.running import RunningServer


def check_landed(run_killer: RunKiller) -> None:
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
