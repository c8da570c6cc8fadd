"""The commands of a review, and what a task shows about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.bus.bus import ask
from tests.acceptance.bus.bus_calls import InSwarm
from tests.acceptance.cli.handoff_commands import Handoffs
from tests.repos import Repo
from tests.running import RunningServer

pytestmark = pytest.mark.requirement("OWN-12")


@pytest.fixture
def handoffs(shared_server: RunningServer, bus: InSwarm, tmp_path: Path) -> Handoffs:
    return Handoffs(shared_server, bus, Repo(tmp_path / "repo"))


def test_the_operator_approves_with_the_command_that_the_task_shows(handoffs: Handoffs) -> None:
    commit = handoffs.in_review()
    shown = handoffs.run("task", "show", "t-1").out
    assert f"review   open, commit {commit[:12]}" in shown
    command = f"shiftboss approve t-1 --swarm {handoffs.swarm}"
    assert f"\n  {command}\n" in shown
    assert f"\n  shiftboss reject t-1 --swarm {handoffs.swarm} --reason 'what is wrong'\n" in shown
    landing = {"commit": commit, "target": "main", "landed_commit": commit}
    handoffs.repo.git("update-ref", "refs/heads/main", commit)
    refused = handoffs.bus.post(
        "/bus/report_landed", {"bead_id": "t-1", "swarm_id": handoffs.swarm, **landing}
    )
    assert (refused.status_code, refused.json()["code"]) == (409, "not_approved")
    assert "approve t-1" in refused.json()["hint"]
    other = handoffs.operate("approve", "t-1", "--commit", "f" * 12)
    assert other.code == 1
    done = handoffs.operate("approve", "t-1", "--by", "ada")
    assert (done.code, done.out) == (0, f"t-1 is approved at {commit[:12]}\n"), done
    assert "approved, commit" in handoffs.run("task", "show", "t-1").out
    assert ask(handoffs.bus, "report_landed", bead_id="t-1", **landing)["success"]


def test_only_the_operator_decides_and_a_rejected_task_shows_why(handoffs: Handoffs) -> None:
    commit = handoffs.in_review()
    for operation in ("approve", "reject"):
        body = {"swarm_id": handoffs.swarm, "bead_id": "t-1", "reason": "no"}
        assert handoffs.bus.post(f"/operator/{operation}", body).status_code == 403
    done = handoffs.operate("reject", "t-1", "--reason", "keep the name", "--by", "ada")
    assert (done.code, done.out) == (0, "t-1 is rejected; its commit does not land\n"), done
    view = handoffs.json("task", "show", "t-1")
    assert (view["status"], view["last_error"]) == ("failed", "rejected by ada: keep the name")
    review = view["review"]
    assert (review["state"], review["commit"]) == ("rejected", commit)
    assert ask(handoffs.bus, "list_landable")["tasks"] == []
