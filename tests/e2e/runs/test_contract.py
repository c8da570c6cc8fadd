"""`shiftboss run` on repos of a policy: CI proves the work, locks keep the repos apart."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.client import Client, SseEvent
from tests.plan_runs import PlanRoom, task
from tests.running import RunningServer
from tests.waiting import wait_until

SWARM = "contract"
# What is wrong with the work is for CI to find, not for the contract.
CRITERION = "Command passes: git --version"
# It says that it has begun, and ends when it may. Without a word it ends by itself.
GATE = """\
import pathlib, sys, time
marks = pathlib.Path(sys.argv[1])
(marks / "ci.begun").touch()
for _ in range(1200):
    if (marks / "ci.free").exists():
        break
    time.sleep(0.05)
"""


class ContractRoom(PlanRoom):
    """The policy beside the plan knows its repo, by another name."""

    def policy(self, **jobs: str) -> None:
        named = {name: {"run": [command]} for name, command in jobs.items()}
        ci = {"provider": "local", "jobs": named, "poll_every": 1}
        policy = {"repos": {"store": {"path": "shop", "branch": "main", "ci": ci}}}
        (self.folder / "shiftboss.yaml").write_text(yaml.safe_dump(policy))

    def plan(self, *tasks: dict[str, Any], **members: Any) -> None:
        super().plan(*tasks, swarm=SWARM, **members)

    def record(self) -> ContractRecord:
        """What the server knows, once nobody works any more."""
        database = self.folder / ".shiftboss" / "shiftboss.db"
        server = RunningServer(database, policy=str(self.folder / "shiftboss.yaml")).start()
        client = Client(server.url)
        try:
            return ContractRecord(client)
        finally:
            client.close()
            server.close()


class ContractRecord:
    def __init__(self, client: Client) -> None:
        self.events: list[SseEvent] = client.stored_events(SWARM)
        said = client.post("/bus/list_repos", {"swarm_id": SWARM}).json()
        self.repos: list[dict[str, Any]] = said["repos"]
        self.receipts = {
            name: client.post("/bus/show_receipt", {"swarm_id": SWARM, "bead_id": name}).json()
            for name in {one.data["bead_id"] for one in self.events if one.kind == "task_landed"}
        }

    def of(self, name: str, *kinds: str) -> list[SseEvent]:
        return [one for one in self.events if one.kind in kinds and one.data["bead_id"] == name]

    def body(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.receipts[name]["signed_receipt"]["receipt"]
        return found


@pytest.fixture
def room(tmp_path: Path) -> ContractRoom:
    return ContractRoom(tmp_path)


def is_there(path: Path) -> Callable[[], bool]:
    return path.exists


@pytest.mark.requirement("OWN-01", "CC-01")
def test_red_ci_goes_back_to_the_agent_and_green_ci_lands(room: ContractRoom) -> None:
    room.policy(test="python3 -m unittest", style="python3 -m compileall -q .")
    room.plan(task("liar", do="lie", criteria=[CRITERION]), task("after", "liar"))
    outcome = room.run("--policy", "shiftboss.yaml")
    assert outcome["landed"] == ["liar", "after"], outcome
    assert room.landed() == ["First", "Add liar", "Add liar", "Add after"]
    record = room.record()
    red, green = record.of("liar", "ci_failed", "ci_passed")
    assert (red.kind, green.kind) == ("ci_failed", "ci_passed")
    assert [one["job"] for one in red.data["jobs"]] == ["test"]
    body = record.body("liar")
    assert red.data["sha"] != green.data["sha"] == body["commit"]
    (run,) = body["ci"]["runs"]
    assert run["sha"] == body["commit"]
    assert {job["name"]: job["state"] for job in run["jobs"]} == dict.fromkeys(
        ("test", "style"), "success"
    )
    said = [one.data["milestone"] for one in record.of("liar", "milestone_reported")]
    assert said == ["WORKING", "PUSHED_TO_CI", "FIXING_CI", "PUSHED_TO_CI"]
    assert len(record.of("liar", "claim_made")) == 1, "nothing red was claimed, nothing twice"
    (repo,) = record.repos
    assert (repo["locked_by"], repo["ci"]) == (None, "green")


@pytest.mark.requirement("OWN-01", "CC-01")
def test_green_ci_does_not_prove_a_foreign_file(room: ContractRoom) -> None:
    """The server claims what is green, and refuses it: said to the agent once, counted once."""
    room.policy(test="python3 -m unittest")
    room.plan(task("strayer", do="stray"), task("other"), workers=2)
    outcome = room.run("--policy", "shiftboss.yaml")
    assert sorted(outcome["landed"]) == ["other", "strayer"], outcome
    record = room.record()
    assert len(record.of("strayer", "ci_passed")) == 2
    (refused,) = record.of("strayer", "claim_refused")
    assert [one["path"] for one in refused.data["violations"]] == ["foreign.py"]
    assert not (room.repo / "foreign.py").exists()
    locked, released = record.of("strayer", "repo_locked", "repo_released")
    others = [one.event_id for one in record.of("other", "repo_locked", "repo_released")]
    assert others[1] < locked.event_id or released.event_id < others[0], "one after the other"


@pytest.mark.requirement("OWN-01", "CC-11")
def test_killed_while_ci_runs_it_goes_on_with_the_ci(room: ContractRoom) -> None:
    """Nobody does the work again: what was pushed is followed to its end."""
    gate = shlex.join(["python3", "-c", GATE, str(room.marks)])
    room.policy(test="python3 -m unittest", gate=gate)
    room.plan(task("one"))
    first = room.start("--policy", "shiftboss.yaml")
    wait_until(is_there(room.marks / "ci.begun"), "CI has begun", 60)
    first.stop()
    (room.marks / "ci.free").touch()
    assert room.run("--policy", "shiftboss.yaml")["landed"] == ["one"]
    assert room.landed() == ["First", "Add one"]
    record = room.record()
    assert record.body("one")["epoch"] > 1
    runs = room.folder / ".shiftboss" / "runs" / SWARM
    logs = [path.parent.name for path in runs.glob("one.*/output.log")]
    assert logs == ["one.1"], "no agent was started for it again"
    said = record.of("one", "milestone_reported")
    assert [one.data["milestone"] for one in said] == ["WORKING", "PUSHED_TO_CI"]
    assert record.body("one")["commit"] in said[1].data["line"]


@pytest.mark.requirement("OWN-01", "CC-11")
def test_who_takes_over_red_work_is_told_what_to_mend(room: ContractRoom) -> None:
    room.policy(test="python3 -m unittest")
    room.plan(task("liar", do="lie quit", criteria=[CRITERION]))
    assert room.run("--policy", "shiftboss.yaml")["landed"] == ["liar"]
    record = room.record()
    assert (room.marks / "liar.quit").exists()
    assert [one.data["epoch"] for one in record.of("liar", "task_failed")] == [1]
    said = [
        (one.data["epoch"], one.data["milestone"])
        for one in record.of("liar", "milestone_reported")
    ]
    assert said[2:] == [(1, "FIXING_CI"), (2, "PUSHED_TO_CI")]
    prompt = room.folder / ".shiftboss" / "runs" / SWARM / "liar.2" / "prompt.md"
    assert "CI job test: failure" in prompt.read_text()
