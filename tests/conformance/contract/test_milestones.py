"""Milestones: their transitions, their required fields, and their effects on the server."""

from __future__ import annotations

from typing import Any

import pytest

from shiftboss.errors import (
    ContractViolations,
    IllegalTransition,
    InvalidRequest,
    KeyReused,
    NotHeld,
    ShiftbossError,
    StaleEpoch,
)
from shiftboss.protocol.contract.contract_requests import ReportMilestoneRequest
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.contract.milestones import TRANSITIONS
from tests.conformance.contract.contract_fixtures import ContractFixture, all_waiting, runs

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("CC-02")]

TASK = "adnet"
LINES = {
    "WORKING": "WORKING: Implementing BaseFee and DynamicFee structs",
    "FIXING_CI": "FIXING_CI: test job - assertion failed in fee_calculation_test",
    "BLOCKED": "BLOCKED: acdc-core is red",
    "DONE": "DONE: adnet CI run #89 all green, radicle-push: success",
}


def line_of(contract: ContractFixture, milestone: str) -> str:
    pushed = f"PUSHED_TO_CI: adnet commit {contract.commits[0][:7]} - CI run #89"
    return LINES.get(milestone, pushed)


async def bring_to(contract: ContractFixture, milestone: str, task: str = TASK) -> None:
    await contract.works_on("adnet", "w", task)
    if milestone in ("PUSHED_TO_CI", "FIXING_CI"):
        sha = await contract.pushes(task, repo="adnet")
    if milestone == "FIXING_CI":
        await contract.ci_says(runs(sha, test="failure"))
    if milestone == "BLOCKED":
        await contract.says(task, LINES["BLOCKED"])
    assert await contract.milestone(task) == milestone


MILESTONES = ("WORKING", "PUSHED_TO_CI", "FIXING_CI", "BLOCKED")


@pytest.mark.parametrize("before", MILESTONES)
async def test_every_transition_between_milestones(contract: ContractFixture, before: str) -> None:
    for after in MILESTONES:
        task = f"to-{after}"
        await bring_to(contract, before, task)
        state = (await contract.attempt(task)).state
        if after in TRANSITIONS[before] or after == before:  # type: ignore[index]
            answer = await contract.says(task, line_of(contract, after))
            assert (answer.milestone, answer.line) == (after, line_of(contract, after))
            assert await contract.milestone(task) == after
        else:
            with pytest.raises(IllegalTransition) as refused:
                await contract.says(task, line_of(contract, after))
            assert refused.value.facts["milestone"] == before
            assert await contract.milestone(task) == before
            assert (await contract.attempt(task)).state is state
        await contract.gives_up(task, "adnet")


async def test_done_needs_a_push(contract: ContractFixture) -> None:
    for before in ("WORKING", "BLOCKED"):
        await bring_to(contract, before, before)
        with pytest.raises(IllegalTransition):
            await contract.says(before, LINES["DONE"])
        assert await contract.milestone(before) == before
        await contract.gives_up(before, "adnet")


async def test_done_is_terminal(contract: ContractFixture) -> None:
    await contract.works_on(TASK)
    await contract.proven(TASK)
    for line in (*LINES.values(), line_of(contract, "PUSHED_TO_CI")):
        if not line.startswith("DONE"):
            with pytest.raises(NotHeld):
                await contract.says(TASK, line)
    assert await contract.status(TASK) == "done"


@pytest.mark.requirement("CC-09")
async def test_done_without_run_jobs_or_sync_is_refused(contract: ContractFixture) -> None:
    await bring_to(contract, "PUSHED_TO_CI")
    contract.evidence.told[contract.commits[0]] = runs(contract.commits[0])
    for line, missing in (
        ("DONE: adnet", ["ci_run"]),
        ("DONE: adnet CI run #89", ["all_green", "sync_status"]),
        ("DONE: adnet CI run #89 all green", ["sync_status"]),
    ):
        with pytest.raises(InvalidRequest) as refused:
            await contract.says(TASK, line)
        assert refused.value.facts["missing"] == missing
        assert (await contract.attempt(TASK)).claim_id is None


@pytest.mark.requirement("CC-09")
async def test_done_with_a_sync_that_did_not_succeed_is_refused(contract: ContractFixture) -> None:
    await bring_to(contract, "PUSHED_TO_CI")
    contract.evidence.told[contract.commits[0]] = runs(contract.commits[0])
    for status in ("skipped", "cancelled", "failure", "running", "waiting"):
        with pytest.raises(ContractViolations) as refused:
            await contract.says(TASK, f"DONE: adnet CI run #89 all green, radicle-push: {status}")
        assert refused.value.facts["forbidden"] == "assuming_radicle_synced"
        assert status in refused.value.detail
    with pytest.raises(ContractViolations, match="done_without_ci_url"):
        await contract.says(TASK, "DONE: adnet CI run #89 not all green, radicle-push: success")


async def test_reports_with_missing_or_wrong_fields_are_refused(contract: ContractFixture) -> None:
    """`abcdef1` is not a commit of the repository."""
    await contract.works_on(TASK)
    for line, field in (
        ("PUSHED_TO_CI: adnet", "commit"),
        ("PUSHED_TO_CI: adnet commit abcdef1", "ci_run"),
        ("PUSHED_TO_CI: adnet commit abcdef1 - CI run #89", "commit"),
        ("FIXING_CI: test", "diagnosis"),
        ("WORKING:", "description"),
        ("Working on it", "line"),
    ):
        with pytest.raises(InvalidRequest) as refused:
            await contract.says(TASK, line)
        assert refused.value.field == field, line
    assert await contract.milestone(TASK) == "WORKING"


async def test_a_report_about_another_repo_is_refused(contract: ContractFixture) -> None:
    await bring_to(contract, "PUSHED_TO_CI")
    for milestone in ("PUSHED_TO_CI", "DONE"):
        line = line_of(contract, milestone).replace(": adnet", ": alphavm")
        with pytest.raises(InvalidRequest, match="works on adnet, not on alphavm"):
            await contract.says(TASK, line)


async def test_a_report_can_be_sent_as_fields_or_as_a_line(contract: ContractFixture) -> None:
    await contract.works_on(TASK)
    report = {"milestone": "WORKING", "description": LINES["WORKING"].removeprefix("WORKING: ")}
    answer = await contract.contract_service.report_milestone(_members(contract, report))
    assert answer.line == LINES["WORKING"]


def _members(contract: ContractFixture, report: dict[str, Any]) -> ReportMilestoneRequest:
    return ReportMilestoneRequest.model_validate(
        {"swarm_id": contract.swarm_id, "bead_id": TASK, "report": report}
    )


@pytest.mark.requirement("CC-18")
async def test_substates_and_progress_are_reported(contract: ContractFixture) -> None:
    await contract.works_on(TASK)
    lines = [
        ("WORKING: Fees [substate: writing_tests] [files: 3/5]", "3/5 files"),
        (line_of(contract, "PUSHED_TO_CI") + " [substate: ci_running] [jobs: 2/6]", "2/6 jobs"),
        (f"{LINES['FIXING_CI']} [substate: local_test]", "fix applied"),
    ]
    for line, progress in lines:
        answer = await contract.says(TASK, line)
        assert (answer.line, answer.progress) == (line, progress)
    reported = [event["progress"] for event in await contract.events("milestone_reported")]
    assert reported == [progress for _, progress in lines]


# -- who reports, and how often


async def test_a_repeated_report_changes_nothing(contract: ContractFixture) -> None:
    await contract.works_on(TASK)
    first = await contract.says(TASK, line_of(contract, "PUSHED_TO_CI"), key="k")
    await contract.ci_says(runs(contract.commits[0], test="failure"))
    again = await contract.says(TASK, line_of(contract, "PUSHED_TO_CI"), key="k")
    # The reply has the current state; the tracked commit is not checked again.
    assert (first.milestone, again.milestone) == ("PUSHED_TO_CI", "FIXING_CI")
    assert (await contract.tracking(TASK)).state == "failed"
    assert len(await contract.events("milestone_reported")) == 1
    with pytest.raises(KeyReused):
        await contract.says(TASK, LINES["FIXING_CI"], key="k")


async def test_repeated_questions_failures_and_claims_change_nothing(
    contract: ContractFixture,
) -> None:
    await contract.works_on(TASK)
    asked = await contract.says(TASK, LINES["BLOCKED"], key="b")
    assert (await contract.says(TASK, LINES["BLOCKED"], key="b")).question_id == asked.question_id
    assert len(await contract.questions()) == 1
    sha = await contract.pushes(TASK)
    contract.evidence.told[sha] = all_waiting(sha)
    with pytest.raises(ContractViolations):
        await contract.says(TASK, LINES["DONE"], key="d")
    line = "BLOCKED_PERMISSION: Bash - Permission to use Bash has been auto-denied"
    await contract.says(TASK, line, key="p")
    again = await contract.says(TASK, line, key="p")
    assert (again.state, again.milestone) == ("failed", "BLOCKED")
    assert len(await contract.events("task_failed")) == 1


async def test_reports_of_an_older_attempt_or_another_worker_are_refused(
    contract: ContractFixture,
) -> None:
    epoch = await contract.works_on(TASK, "w")
    wrong: list[tuple[type[ShiftbossError], dict[str, Any]]] = [
        (NotHeld, {"name": "other"}),
        (StaleEpoch, {"epoch": epoch + 1}),
    ]
    for error, members in wrong:
        for milestone in ("WORKING", "PUSHED_TO_CI", "BLOCKED"):
            with pytest.raises(error):
                await contract.says(TASK, line_of(contract, milestone), **members)
    assert await contract.events("milestone_reported") == []
    await contract.says(TASK, LINES["WORKING"], name="w", epoch=epoch)


async def test_only_a_worker_that_was_given_the_task_can_report(contract: ContractFixture) -> None:
    await contract.register("w")
    await contract.spawn(TASK, repo="adnet", submit=True)
    with pytest.raises(NotHeld):
        await contract.says(TASK, LINES["WORKING"])


# -- work of the server


async def test_no_lease_runs_while_ci_is_followed(contract: ContractFixture) -> None:
    await contract.works_on(TASK, "w")
    await contract.pushes(TASK)
    for _ in range(3):
        assert (await contract.beat("w")).lease_expires_at is None
        held = await contract.attempt(TASK)
        assert (held.state, held.lease_expires_at_ms) == (WorkerState.VERIFYING, None)
    await contract.pass_seconds(86_400)
    assert await contract.status(TASK) == "active"


@pytest.mark.requirement("CC-01", "CC-10")
async def test_the_worker_may_leave_after_the_push(contract: ContractFixture) -> None:
    """Without any further report the task gets done."""
    await contract.works_on(TASK)
    sha = await contract.pushes(TASK)
    await contract.ci_says(all_waiting(sha), runs(sha, test="running"), runs(sha))
    job = await contract.accept()
    assert job.commit == sha
    assert await contract.status(TASK) == "done"
    assert await contract.locked() == {}


@pytest.mark.requirement("CC-01")
async def test_done_after_the_server_has_finished_returns_the_receipt(
    contract: ContractFixture,
) -> None:
    epoch = await contract.works_on(TASK, "w")
    await contract.proven(TASK)
    reports: list[dict[str, Any]] = [{}, {"name": "w", "epoch": epoch}]
    for members in reports:
        answer = await contract.says(TASK, LINES["DONE"], **members)
        assert (answer.status, answer.milestone) == ("accepted", "DONE")
        assert answer.receipt_id == (await contract.receipt(TASK))["receipt_id"]
    with pytest.raises(NotHeld):
        await contract.says(TASK, LINES["DONE"], name="somebody")


NOT_GREEN = [
    ("radicle_push", "skipped", "radicle-push was skipped"),
    ("radicle_push", "cancelled", "radicle-push was cancelled"),
    ("radicle_push", "failure", "radicle-push failed"),
    ("radicle_push", "running", "radicle-push is still running"),
    ("radicle_push", "waiting", "radicle-push is still waiting"),
    ("coverage", "skipped", "coverage was skipped"),
    ("coverage", "running", "coverage is still running"),
    ("coverage", "missing", "no job 'coverage'"),
]


@pytest.mark.requirement("CC-01")
async def test_done_is_refused_with_the_name_of_the_red_job(contract: ContractFixture) -> None:
    """The worker's report is not evidence: the server checks CI when it receives DONE."""
    await contract.works_on(TASK)
    for job, state, words in NOT_GREEN:
        sha = await contract.pushes(TASK)
        contract.evidence.told[sha] = runs(sha, **{job: state})
        with pytest.raises(ContractViolations) as refused:
            await contract.says(TASK, LINES["DONE"])
        assert words in refused.value.detail
        assert await contract.status(TASK) == "active"
        assert (await contract.attempt(TASK)).claim_id is None
    assert await contract.locked() == {"adnet": TASK}
