"""Reviews: accepted work lands only when a person has approved exactly that work."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from shiftboss.errors import (
    Conflict,
    DependenciesUnfinished,
    InvalidRequest,
    NotApproved,
    UnknownReceipt,
)
from shiftboss.protocol.bus import TaskRequest
from shiftboss.protocol.claims.verdicts import VerificationJob
from shiftboss.protocol.handoff_requests import WaiveRequest
from shiftboss.protocol.runs import ReportRunRequest
from shiftboss.rules.runs.squash import squash_message
from tests.conformance.handoffs.handoff_fixtures import HandoffFixture, accepted, open_handoffs
from tests.conformance.runs.run_fixtures import RunFixture
from tests.repos import Repo
from tests.verifying import LocalEvidence

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-12")]


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "own")


@pytest.fixture
async def bus(store_address: str, tmp_path: Path, repo: Repo) -> AsyncIterator[HandoffFixture]:
    evidence = LocalEvidence(tmp_path / "evidence", str(repo.path))
    async with open_handoffs(store_address, evidence, repo) as fixture:
        yield fixture


async def in_review(bus: HandoffFixture, task: str, commit: str, **members: Any) -> None:
    await bus.given_out(task, "w", branch="task", target="main", review="required", **members)
    await bus.claim(task, name="w", commit=commit)
    await bus.accept()


async def state(bus: HandoffFixture, task: str) -> str | None:
    review = (await bus.show(task)).review
    return None if review is None else review.state


def merge(repo: Repo) -> None:
    repo.git("checkout", "--quiet", "main")
    repo.git("merge", "--quiet", "--ff-only", "task")
    repo.git("checkout", "--quiet", "task")


async def test_work_lands_only_after_its_approval(bus: HandoffFixture, repo: Repo) -> None:
    plan, commit = RunFixture(bus), repo.commit("work")
    await in_review(bus, "a", commit)
    assert await state(bus, "a") == "open"
    assert [task.review for task in await plan.landable()] == ["open"]
    merge(repo)
    with pytest.raises(NotApproved) as refused:
        await plan.landed("a", commit)
    assert "shiftboss approve a --swarm" in (refused.value.hint or "")
    with pytest.raises(Conflict):
        await plan.approve("a", commit="f" * 40)
    assert await state(bus, "a") == "open"
    assert (await plan.approve("a", commit=commit[:12], by="ada")).changed is True
    assert (await plan.approve("a")).changed is False
    review = (await bus.show("a")).review
    assert review is not None
    assert (review.state, review.decided_by, review.commit) == ("approved", "ada", commit)
    with pytest.raises(Conflict):
        await plan.reject("a", "too late")
    assert (await plan.landed("a", commit)).landed_commit == commit
    assert [event["by"] for event in await bus.events("review_approved")] == ["ada"]


async def test_rejected_work_does_not_land_and_is_done_again(
    bus: HandoffFixture, repo: Repo
) -> None:
    plan, commit = RunFixture(bus), repo.commit("work")
    await in_review(bus, "a", commit)
    assert (await plan.reject("a", "keep the name", by="ada")).state == "rejected"
    assert (await plan.reject("a", "keep the name", by="ada")).changed is False
    view = await bus.show("a")
    assert (view.status, view.failures) == ("failed", 1)
    assert view.last_error == "rejected by ada: keep the name"
    assert await plan.landable() == []
    merge(repo)
    with pytest.raises(UnknownReceipt):
        await plan.landed("a", commit)
    assert await bus.retry("a") == "active"
    given = await bus.given("w")
    assert given.checkpoint == {"instructions": "keep the name", "start_over": True}
    assert given.salvage[-1]["commits"] == [commit]
    better = repo.commit("better")
    await bus.ack("w", "a")
    await bus.claim("a", name="w", commit=better)
    await bus.accept()
    assert await state(bus, "a") == "open", "the earlier decision was about other work"
    with pytest.raises(Conflict):
        await plan.approve("a", commit=commit)
    assert (await plan.approve("a", commit=better)).changed is True


async def again(bus: HandoffFixture, commit: str) -> VerificationJob:
    """The rejected task is handed out and claimed again; the job that its verifier gets."""
    await bus.retry("a")
    await bus.given("w")
    await bus.ack("w", "a")
    await bus.claim("a", name="w", commit=commit)
    return await bus.taken()


async def waive_review(bus: HandoffFixture) -> None:
    await bus.handoff_service.waive(
        WaiveRequest(swarm_id=bus.swarm_id, bead_id="a", check="review", reason="it is fine")
    )


async def test_every_rejection_of_a_task_is_remembered(bus: HandoffFixture, repo: Repo) -> None:
    plan, first, second = RunFixture(bus), repo.commit("work"), repo.commit("more")
    await in_review(bus, "a", first)
    await plan.reject("a", "keep the name", by="ada")
    job = await again(bus, second)
    assert await bus.report(job, accepted(job)) == "accepted"
    bus.clock.now_ms += 1
    await plan.reject("a", "and the type", by="bob")
    job = await again(bus, first)
    assert [(r.commit, r.reason, r.rejected_by) for r in job.rejections] == [
        (second, "and the type", "bob"),
        (first, "keep the name", "ada"),
    ]
    assert [r.tree for r in job.rejections] == [second[::-1], first[::-1]]


@pytest.mark.requirement("OWN-01")
async def test_a_verifier_cannot_accept_what_the_operator_has_rejected(
    bus: HandoffFixture, repo: Repo
) -> None:
    plan, commit, other = RunFixture(bus), repo.commit("work"), repo.commit("amended")
    await in_review(bus, "a", commit)
    await plan.reject("a", "keep the name")
    job = await again(bus, other)
    for verdict in (accepted(job, commit=commit), accepted(job, tree=commit[::-1])):
        with pytest.raises(InvalidRequest, match="rejected"):
            await bus.report(job, verdict)
    assert (await bus.attempt("a")).claim_id is not None, "nothing was changed"
    await waive_review(bus)
    assert await bus.report(job, accepted(job, tree=commit[::-1])) == "accepted"


async def test_a_waiver_does_not_cover_a_later_rejection(bus: HandoffFixture, repo: Repo) -> None:
    plan, commit = RunFixture(bus), repo.commit("work")
    await in_review(bus, "a", commit)
    await plan.reject("a", "keep the name")
    await bus.retry("a")
    await waive_review(bus)
    await bus.given("w")
    await bus.ack("w", "a")
    await bus.claim("a", name="w", commit=commit)
    job = await bus.accept()
    assert [waiver.check for waiver in job.waivers] == ["review"]
    await plan.reject("a", "still not")
    job = await again(bus, commit)
    assert (job.waivers, [r.reason for r in job.rejections]) == ([], ["still not"])


async def test_dependent_tasks_start_only_after_the_approval(
    bus: HandoffFixture, repo: Repo
) -> None:
    plan, commit = RunFixture(bus), repo.commit("work")
    await bus.add("a")
    await bus.add("before", after=["a"])
    await in_review(bus, "a", commit)
    await bus.add("later", after=["a"])
    for task in ("before", "later"):
        assert (await bus.submit(task)).waits_for == ["a"]
    with pytest.raises(DependenciesUnfinished):
        await bus.spawn("c", dependencies_completed=["a"])
    assert (await bus.look("w")).task is None
    await plan.approve("a")
    assert (await bus.given("w")).bead_id == "before"
    assert [(await bus.show(task)).waits_for for task in ("before", "later")] == [0, 0]


async def test_only_the_work_of_tasks_can_be_reviewed(bus: HandoffFixture) -> None:
    plan = RunFixture(bus)
    with pytest.raises(InvalidRequest):
        await bus.spawn("packet-1", review="required")
    await bus.add_and_submit("a")
    with pytest.raises(Conflict):
        await plan.approve("a")


@pytest.mark.requirement("OWN-01")
async def test_a_squash_has_landed_if_its_message_names_the_accepted_commit(
    bus: HandoffFixture, repo: Repo
) -> None:
    plan, commit = RunFixture(bus), repo.commit("work")
    for task, landing in (("a", "squash"), ("b", "merge")):
        await bus.given_out(task, "w", branch="task", target="main", landing=landing)
        await bus.claim(task, name="w", commit=commit)
        await bus.accept()
    squashes = [
        repo.git(
            *("commit-tree", f"{commit}^{{tree}}", "-p", "main", "-m"),
            squash_message("T", bead_id="a", swarm_id="s", receipt_id=None, commit=named),
        )
        for named in (repo.base, commit)
    ]
    repo.git("update-ref", "refs/heads/main", squashes[0])
    with pytest.raises(Conflict):
        await plan.landed("a", commit, landed_commit=squashes[0])
    repo.git("update-ref", "refs/heads/main", squashes[1])
    with pytest.raises(Conflict):
        await plan.landed("b", commit, landed_commit=squashes[1])
    assert (await plan.landed("a", commit, landed_commit=squashes[1])).landed_commit == squashes[1]


async def whys(bus: HandoffFixture, task: str) -> list[tuple[str, str]]:
    answer = await bus.bus_service.why_task(TaskRequest(swarm_id=bus.swarm_id, bead_id=task))
    return [(reason.kind, reason.text) for reason in answer.reasons]


@pytest.mark.requirement("OWN-11")
async def test_a_task_names_the_dependency_whose_work_is_in_review_or_has_to_land(
    bus: HandoffFixture, repo: Repo
) -> None:
    plan = RunFixture(bus)
    await in_review(bus, "a", repo.commit("work"))
    await bus.add("b", after=["a"])
    seen = await bus.coordinator.swarms.status(bus.swarm_id)
    assert (seen.status, seen.bus.reviews) == ("waiting", 1)
    assert await whys(bus, "b") == [("dependency", "it waits for a, which is in review")]
    await plan.approve("a")
    for auto_merge in (True, False):
        request = ReportRunRequest(
            swarm_id=bus.swarm_id, plan_file="/plan.yaml", auto_merge=auto_merge
        )
        await bus.coordinator.runs.report_run(request)
        kinds = [kind for kind, _ in await whys(bus, "b")]
        assert kinds == (["dependency"] if auto_merge else ["not_running"])
    await bus.submit("b")
    await bus.register("x")
    await bus.start("x", "b")
    (waiting,) = (await bus.coordinator.swarms.status(bus.swarm_id)).waiting
    assert waiting.kind == "not_landed", "a run that leaves landing to the user does not do it"
    await bus.cancel("b")
    assert (await bus.coordinator.swarms.status(bus.swarm_id)).status == "waiting", "to land"


@pytest.mark.requirement("OWN-01")
async def test_a_squash_has_landed_only_with_the_content_of_an_accepted_commit(
    bus: HandoffFixture, repo: Repo
) -> None:
    """Anybody can write the trailer."""
    plan, commit = RunFixture(bus), repo.commit("work", {"src/auth/one.py": "x = 1\n"})
    later = repo.commit("refused", {"src/auth/later.py": "z = 1\n"})
    await bus.given_out("a", "w", branch="task", target="main", landing="squash")
    await bus.claim("a", name="w", commit=commit)
    await bus.accept()
    lies = [
        repo.git("commit-tree", f"{tree}^{{tree}}", "-p", "main", "-m", _names(named))
        for tree, named in (("main", commit), (later, later))
    ]
    for lie in lies:
        repo.git("update-ref", "refs/heads/main", lie)
        with pytest.raises(Conflict):
            await plan.landed("a", commit, landed_commit=lie)


@pytest.mark.requirement("OWN-01")
async def test_a_squash_of_a_merge_task_stands_for_the_work_that_it_has_merged(
    bus: HandoffFixture, repo: Repo
) -> None:
    plan, commit = RunFixture(bus), repo.commit("work")
    merge = repo.commit("merge", {"src/auth/merged.py": "z = 1\n"})
    for task, work in (("a", commit), ("a-merge-1", merge)):
        await bus.given_out(task, "w", branch="task", target="main", landing="squash")
        await bus.claim(task, name="w", commit=work)
        await bus.accept()
    squash = repo.git("commit-tree", f"{merge}^{{tree}}", "-p", "main", "-m", _names(merge))
    repo.git("update-ref", "refs/heads/main", squash)
    assert (await plan.landed("a", commit, landed_commit=squash)).landed_commit == squash


def _names(commit: str) -> str:
    return squash_message("T", bead_id="a", swarm_id="s", receipt_id=None, commit=commit)
