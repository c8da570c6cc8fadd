"""The documented session with a real server, real git and a forge that behaves like Forgejo."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.acceptance.bus.bus import ask, task
from tests.acceptance.bus.bus_calls import refused
from tests.client import Client
from tests.forge import REPOSITORY, TOKEN, Forge, running_forge
from tests.repos import Repo
from tests.running import RunningServer
from tests.waiting import wait_until

JOBS = ("check", "format", "audit", "build", "test", "coverage")
GREEN = dict.fromkeys(JOBS, "success")
DONE = "DONE: adnet CI run #{} all green, radicle-push: success"


class Session:
    """One worker on adnet, which depends on alphavm."""

    def __init__(self, folder: Path, forge: Forge, policy: dict[str, Any]) -> None:
        self.forge = forge
        forge.branch = "task"
        self.repo = Repo(folder / "adnet")
        (folder / "state").mkdir()
        file = folder / "shiftboss.yaml"
        ci = policy.pop("ci")
        file.write_text(yaml.safe_dump(policy | {"repos": self._repos(**ci)}))
        self.server = RunningServer(folder / "state" / "shiftboss.db", policy=str(file))

    def start(self) -> None:
        self.client = Client(self.server.start().url)
        ask(self.client, "register_worker", name="w")

    def _repos(self, **members: object) -> dict[str, Any]:
        ci = {
            "provider": "forgejo",
            "url": self.forge.url,
            "repository": REPOSITORY,
            "token_variable": "FORGE_TOKEN",
            "poll_every": 1,
            **members,
        }
        adnet = {"path": "adnet", "branch": "task", "depends_on": ["alphavm"], "ci": ci}
        return {"alphavm": {"path": "alphavm"}, "adnet": adnet}

    def begin(self, bead_id: str) -> None:
        ask(
            self.client,
            "swarm_spawn_subtask",
            bead_id=bead_id,
            repo="adnet",
            files=["src/auth/"],
            subtask_title="Fees",
            success_criteria=["Command passes: grep -q fee src/auth/login.py"],
            submit=True,
        )
        ask(self.client, "ack_task", name="w", bead_id=bead_id)

    def push(self, text: str) -> str:
        sha = self.repo.commit(text, {"src/auth/login.py": f"# fee {text}\n"})
        self.forge.tips["task"] = sha
        return sha

    def says(self, bead_id: str, line: str) -> dict[str, Any]:
        return ask(self.client, "report_milestone", bead_id=bead_id, name="w", line=line)

    def pushed(self, bead_id: str, sha: str, run: int) -> None:
        self.says(bead_id, f"PUSHED_TO_CI: adnet commit {sha[:7]} - CI run #{run}")

    def refusal(self, bead_id: str, run: object) -> dict[str, Any]:
        """How DONE is refused. The server asks the forge when it hears it."""
        body = {"bead_id": bead_id, "name": "w", "line": DONE.format(run)}
        return refused(self.client, "/bus/report_milestone", body, 409, "contract_violations")

    def not_done(self, bead_id: str, run: int) -> str:
        detail: str = self.refusal(bead_id, run)["detail"]
        return detail

    def kinds(self, bead_id: str) -> list[str]:
        found = self.client.stored_events("default")
        return [one.kind for one in found if one.data.get("bead_id") == bead_id]

    def wait_for(self, bead_id: str, kind: str) -> None:
        wait_until(lambda: kind in self.kinds(bead_id), f"{kind} of {bead_id}", seconds=30)


CONTRACT = {"ci": {"required_jobs": list(JOBS), "must_succeed": ["radicle-push"]}}
PRESET = {"preset": "completion-contract", "ci": {"required_jobs": ["test"]}}


@pytest.fixture(params=[CONTRACT], ids=["contract"])
def session(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Session]:
    """The parameter is the policy, with the CI of adnet."""
    monkeypatch.setenv("FORGE_TOKEN", TOKEN)
    with running_forge("forgejo-new") as forge:
        session = Session(tmp_path, forge, dict(request.param))
        try:
            session.start()
            yield session
            session.client.close()
        finally:
            session.server.close()


@pytest.mark.requirement("CC-01", "CC-02", "CC-03", "CC-05", "CC-09")
def test_the_documented_session_ends_in_done_and_every_deviation_is_refused(
    session: Session,
) -> None:
    session.begin("fees")
    path = "adnet/crates/adnet-runtime/src/fees/"
    session.says("fees", f"WORKING: Setting up fee calculation module in {path}")
    session.says("fees", "WORKING: Implementing BaseFee and DynamicFee structs")
    # An older run is green, and this commit has no run yet.
    session.forge.push(session.repo.base, **GREEN, radicle_push="success")
    first = session.push("first")
    session.pushed("fees", first, 90)
    assert "there is no CI run for commit" in session.not_done("fees", 89)
    run = session.forge.push(first, **GREEN | {"test": "running"}, radicle_push="waiting")
    assert "test has not started in run #90" in session.not_done("fees", 90)
    run.jobs |= {"test": "failure", "radicle-push": "skipped"}
    assert "test failed" in session.not_done("fees", 90)
    session.says("fees", "FIXING_CI: test job - assertion failed in fee_calculation_test")
    # The sync is skipped; the documented remedy is an empty push.
    second = session.push("second")
    session.forge.push(second, **GREEN, radicle_push="skipped")
    session.pushed("fees", second, 91)
    assert "radicle-push was skipped, so it did not run" in session.not_done("fees", 91)
    session.repo.git("commit", "--quiet", "--allow-empty", "-m", "ci: trigger radicle sync")
    third = session.repo.head()
    run = session.forge.push(third, **GREEN | {"coverage": "missing"}, radicle_push="success")
    run.jobs["coverages"] = run.jobs.pop("coverage").replace("missing", "success")
    session.pushed("fees", third, 92)
    assert "has no job 'coverage'; did you mean 'coverages'?" in session.not_done("fees", 92)
    session.says("fees", "FIXING_CI: coverage job - was renamed")
    run.jobs["coverage"] = run.jobs.pop("coverages")
    run.restart()
    session.pushed("fees", third, 92)
    answer = session.says("fees", "DONE: adnet CI run #92 all green, Radicle synced")
    assert (answer["status"], answer["milestone"]) == ("accepted", "DONE")
    kinds = session.kinds("fees")
    assert [kinds.count(one) for one in ("ci_failed", "ci_passed", "claim_accepted")] == [3, 1, 1]
    assert kinds[-3:] == ["claim_accepted", "task_done", "repo_released"]
    receipt = ask(session.client, "show_receipt", bead_id="fees")["signed_receipt"]["receipt"]
    assert receipt["commit"] == third
    assert TOKEN not in str(session.client.stored_events("default")) + session.server.log


@pytest.mark.requirement("CC-01", "CC-03", "CC-10", "CC-11")
def test_a_task_gets_done_although_the_worker_leaves_and_forge_and_server_fail(
    session: Session,
) -> None:
    session.begin("fees")
    sha = session.push("fees")
    session.forge.is_down = True
    session.pushed("fees", sha, 89)
    wait_until(lambda: session.forge.asked, "the forge was asked")
    session.server.kill()
    session.forge.is_down = False
    session.forge.push(sha, **GREEN, radicle_push="success")
    session.server.start()
    session.wait_for("fees", "task_done")
    assert task(session.client, "fees")["status"] == "done"
    # Only by its commit, never with a list of all runs.
    listed = [path for path in session.forge.requests if path.endswith("/actions/tasks")]
    assert listed == []


@pytest.mark.requirement("CC-01")
def test_a_commit_that_a_later_push_removed_from_the_branch_is_not_done(session: Session) -> None:
    """Its run stays green, but the branch has another commit."""
    session.begin("fees")
    sha = session.push("fees")
    session.pushed("fees", sha, 89)
    session.repo.git("reset", "--quiet", "--hard", "HEAD~1")
    session.push("another")
    session.forge.push(sha, **GREEN, radicle_push="success")
    session.wait_for("fees", "claim_refused")
    refusals = [
        event.data
        for event in session.client.stored_events("default")
        if event.kind == "claim_refused"
    ]
    assert {violation["check"] for violation in refusals[0]["violations"]} == {"commit"}
    assert task(session.client, "fees")["status"] == "active"
    blocked = refused(
        session.client,
        "/bus/swarm_spawn_subtask",
        {
            "bead_id": "other",
            "repo": "adnet",
            "files": ["README.md"],
            "subtask_title": "Other",
            "success_criteria": ["It works"],
        },
        409,
        "repo_blocked",
    )
    assert blocked["blockers"][0]["bead_id"] == "fees"


@pytest.mark.requirement("CC-01", "CC-03", "CC-09")
def test_the_run_of_another_commit_proves_nothing_before_and_after_the_verdict(
    session: Session,
) -> None:
    session.begin("fees")
    session.forge.push(session.repo.base, **GREEN, radicle_push="success")
    sha = session.push("fees")
    run = session.forge.push(sha, **GREEN | {"test": "running"}, radicle_push="waiting")
    session.pushed("fees", sha, 90)

    def refused_run(named: object) -> None:
        problem = session.refusal("fees", named)
        assert (problem["field"], problem["forbidden"]) == ("ci_run", "caching_old_run_ids")
        assert f"is not a CI run of the pushed commit {sha[:12]}" in problem["detail"]
        assert problem["hint"] == "the runs of this commit are: #90"

    before = session.kinds("fees")
    refused_run(89)
    assert session.kinds("fees") in (before, [*before, "ci_run_found"])
    run.jobs |= {"test": "success", "radicle-push": "success"}
    session.wait_for("fees", "task_done")
    refused_run(89)
    refused_run(f"{session.forge.url}/other/repo/actions/runs/90")
    assert session.says("fees", DONE.format(90))["status"] == "accepted"


@pytest.mark.requirement("CC-01")
@pytest.mark.parametrize("session", [PRESET], ids=["preset"], indirect=True)
def test_the_preset_demands_its_sync_job_and_every_other_job(session: Session) -> None:
    session.begin("fees")
    for number, (jobs, expected) in enumerate(
        [
            ({"test": "success", "radicle-push": "skipped"}, "radicle-push was skipped"),
            ({"test": "success"}, "has no job 'radicle-push'"),
            (GREEN | {"radicle-push": "success", "lint": "failure"}, "lint failed (run #91)"),
        ],
        start=89,
    ):
        sha = session.push(f"push {number}")
        session.forge.push(sha, **{name.replace("-", "_"): state for name, state in jobs.items()})
        session.pushed("fees", sha, number)
        assert expected in session.not_done("fees", number)
