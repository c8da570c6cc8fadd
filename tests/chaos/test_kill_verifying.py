"""The server or its evidence process dies during a verification: the claim is verified again, and
counted once."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tests.acceptance.bus.bus import ask, task
from tests.acceptance.handoffs.handoffs import GATE, complete, honest
from tests.client import Client
from tests.repos import UNCONTAINED, Repo
from tests.running import RunningServer
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("new_children")


@pytest.mark.requirement("HO-04", "OWN-02")
def test_a_claim_survives_a_crash_of_its_server(server: RunningServer, tmp_path: Path) -> None:
    client = Client(server.url)
    started, go = tmp_path / "started", tmp_path / "go"
    commit = _claim(client, Repo(tmp_path / "repo"), started, go)
    server.kill()
    started.unlink()
    go.touch()
    server.start()
    _verified_once(client, commit)
    assert started.exists()
    client.close()


@pytest.mark.requirement("HO-04", "OWN-02")
def test_a_claim_survives_a_crash_of_the_evidence_process(
    server: RunningServer, tmp_path: Path
) -> None:
    client = Client(server.url)
    started, go = tmp_path / "started", tmp_path / "go"
    commit = _claim(client, Repo(tmp_path / "repo"), started, go)
    (evidence,) = [
        child
        for child in psutil.Process(server.pid).children()
        if "shiftboss.evidence.subprocess.main" in child.cmdline()
    ]
    evidence.kill()
    started.unlink()
    go.touch()
    _verified_once(client, commit)
    assert started.exists()
    client.close()


def _claim(client: Client, repo: Repo, started: Path, go: Path) -> str:
    """Claim work whose criterion runs until `go` exists. Returns the commit."""
    repo.base = repo.commit("set up", {"tools/gate.py": GATE})
    ask(
        client,
        "swarm_spawn_subtask",
        bead_id="t",
        files=["src/auth/"],
        subtask_title="T",
        repo=str(repo.path),
        success_criteria=[f"Command passes: python3 tools/gate.py {started} {go}"],
        policy=UNCONTAINED,
    )
    commit = honest(repo)
    first = complete(client, "t", wait_ms=0, summary="done")
    assert first.json()["status"] == "verifying"
    wait_until(started.exists, "the criterion runs", seconds=30)
    return commit


def _verified_once(client: Client, commit: str) -> None:
    """The server continues by itself, without a request."""
    wait_until(lambda: task(client, "t")["status"] == "done", "it is verified again", seconds=30)
    again = complete(client, "t", summary="done").json()
    assert (again["success"], again["claim_id"], again["commit"]) == (True, 1, commit)
    kinds = [event.kind for event in client.stored_events("default")]
    for kind in ("claim_made", "claim_accepted", "task_done"):
        assert kinds.count(kind) == 1
    assert len(ask(client, "list_receipts")["receipts"]) == 1
