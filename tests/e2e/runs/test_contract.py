"""`shiftboss run` on repos of a policy: CI verifies the work, and locks serialise the repos."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.client import Client, SseEvent
from tests.plan_runs import PlanProject, task
from tests.running import RunningServer
from tests.waiting import wait_until

SWARM = "contract"
# Passes always: problems are for CI to find.
CRITERION = "Command passes: git --version"
# A CI job that waits for the file `ci.free`, with a timeout.
GATE = """\
import pathlib, sys, time
marks = pathlib.Path(sys.argv[1])
(marks / "ci.started").touch()
for _ in range(1200):
    if (marks / "ci.free").exists():
        break
    time.sleep(0.05)
"""


class ContractProject(PlanProject):
    """The policy beside the plan has its repo under another name."""

    def policy(self, **jobs: str) -> None:
        ci_jobs = {name: {"run": [command]} for name, command in jobs.items()}
        ci = {"provider": "local", "jobs": ci_jobs, "poll_every": 1}
        policy = {"repos": {"store": {"path": "shop", "branch": "main", "ci": ci}}}
        (self.folder / "shiftboss.yaml").write_text(yaml.safe_dump(policy))

    def plan(self, *tasks: dict[str, Any], **members: Any) -> None:
        super().plan(*tasks, swarm=SWARM, **members)

    def record(self) -> ContractRecord:
        """What the server has stored, after the run."""
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
        answer = client.post("/bus/list_repos", {"swarm_id": SWARM}).json()
        self.repos: list[dict[str, Any]] = answer["repos"]
        self.receipts = {
            name: client.post("/bus/show_receipt", {"swarm_id": SWARM, "bead_id": name}).json()
            for name in {
                event.data["bead_id"] for event in self.events if event.kind == "task_landed"
            }
        }

    def of(self, name: str, *kinds: str) -> list[SseEvent]:
        return [
            event for event in self.events if event.kind in kinds and event.data["bead_id"] == name
        ]

    def body(self, name: str) -> dict[str, Any]:
        body: dict[str, Any] = self.receipts[name]["signed_receipt"]["receipt"]
        return body


@pytest.fixture
def project(tmp_path: Path) -> ContractProject:
    return ContractProject(tmp_path)


def exists(path: Path) -> Callable[[], bool]:
    return path.exists


@pytest.mark.requirement("OWN-01", "CC-01")
def test_red_ci_goes_back_to_the_agent_and_green_ci_lands(project: ContractProject) -> None:
    project.policy(test="python3 -m unittest", style="python3 -m compileall -q .")
    project.plan(task("liar", do="lie", criteria=[CRITERION]), task("after", "liar"))
    outcome = project.run("--policy", "shiftboss.yaml")
    assert outcome["landed"] == ["liar", "after"], outcome
    assert project.landed() == ["First", "Add liar", "Add liar", "Add after"]
    record = project.record()
    red, green = record.of("liar", "ci_failed", "ci_passed")
    assert (red.kind, green.kind) == ("ci_failed", "ci_passed")
    assert [job["job"] for job in red.data["jobs"]] == ["test"]
    body = record.body("liar")
    assert red.data["sha"] != green.data["sha"] == body["commit"]
    (run,) = body["ci"]["runs"]
    assert run["sha"] == body["commit"]
    assert {job["name"]: job["state"] for job in run["jobs"]} == dict.fromkeys(
        ("test", "style"), "success"
    )
    milestones = [event.data["milestone"] for event in record.of("liar", "milestone_reported")]
    assert milestones == ["WORKING", "PUSHED_TO_CI", "FIXING_CI", "PUSHED_TO_CI"]
    assert len(record.of("liar", "claim_made")) == 1, "no red commit was claimed, and none twice"
    (repo,) = record.repos
    assert (repo["locked_by"], repo["ci"]) == (None, "green")


@pytest.mark.requirement("OWN-01", "CC-01")
def test_green_ci_does_not_excuse_a_file_out_of_scope(project: ContractProject) -> None:
    """The server claims the green commit and refuses it: one refusal, counted once."""
    project.policy(test="python3 -m unittest")
    project.plan(task("strayer", do="stray"), task("other"), workers=2)
    outcome = project.run("--policy", "shiftboss.yaml")
    assert sorted(outcome["landed"]) == ["other", "strayer"], outcome
    record = project.record()
    assert len(record.of("strayer", "ci_passed")) == 2
    (refused,) = record.of("strayer", "claim_refused")
    assert [violation["path"] for violation in refused.data["violations"]] == ["foreign.py"]
    assert not (project.repo / "foreign.py").exists()
    locked, released = record.of("strayer", "repo_locked", "repo_released")
    others = [event.event_id for event in record.of("other", "repo_locked", "repo_released")]
    assert others[1] < locked.event_id or released.event_id < others[0], "one after the other"


@pytest.mark.requirement("OWN-01", "CC-11")
def test_a_run_killed_while_ci_is_running_continues_with_the_same_ci_run(
    project: ContractProject,
) -> None:
    """The work is not done again: the run waits for the CI of the pushed commit."""
    gate = shlex.join(["python3", "-c", GATE, str(project.marks)])
    project.policy(test="python3 -m unittest", gate=gate)
    project.plan(task("one"))
    first = project.start("--policy", "shiftboss.yaml")
    wait_until(exists(project.marks / "ci.started"), "CI has started", 60)
    first.stop()
    (project.marks / "ci.free").touch()
    assert project.run("--policy", "shiftboss.yaml")["landed"] == ["one"]
    assert project.landed() == ["First", "Add one"]
    record = project.record()
    assert record.body("one")["epoch"] > 1
    runs = project.folder / ".shiftboss" / "runs" / SWARM
    logs = [path.parent.name for path in runs.glob("one.*/output.log")]
    assert logs == ["one.1"], "no second agent was started"
    milestones = record.of("one", "milestone_reported")
    assert [event.data["milestone"] for event in milestones] == ["WORKING", "PUSHED_TO_CI"]
    assert record.body("one")["commit"] in milestones[1].data["line"]


@pytest.mark.requirement("OWN-01", "CC-11")
def test_the_next_attempt_is_told_why_ci_failed(project: ContractProject) -> None:
    project.policy(test="python3 -m unittest")
    project.plan(task("liar", do="lie quit", criteria=[CRITERION]))
    assert project.run("--policy", "shiftboss.yaml")["landed"] == ["liar"]
    record = project.record()
    assert (project.marks / "liar.quit").exists()
    assert [event.data["epoch"] for event in record.of("liar", "task_failed")] == [1]
    milestones = [
        (event.data["epoch"], event.data["milestone"])
        for event in record.of("liar", "milestone_reported")
    ]
    assert milestones[2:] == [(1, "FIXING_CI"), (2, "PUSHED_TO_CI")]
    prompt = project.folder / ".shiftboss" / "runs" / SWARM / "liar.2" / "prompt.md"
    assert "CI job test: failure" in prompt.read_text()
