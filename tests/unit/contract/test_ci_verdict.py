"""The CI verdict on a commit: only what was seen to succeed has succeeded."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftboss.protocol.ci import CiDemand, CiJob, CiReport, CiRun, JobState, RunState
from shiftboss.protocol.policy import CiPolicy
from shiftboss.rules.contract.ci_verdict import CiFinding, ci_state, judge_ci_report

SHA = "a1b2c3d4" * 5
OTHER_SHA = "0f0f0f0f" * 5
REQUIRED = ["check", "format", "audit", "build", "test", "coverage"]
SYNC = "radicle-push"
GREEN: dict[str, JobState] = dict.fromkeys([*REQUIRED, SYNC], "success")


def demand(
    required: list[str] = REQUIRED,
    must_succeed: tuple[str, ...] | None = (SYNC,),
    optional: tuple[str, ...] = (),
) -> CiDemand:
    synced = None if must_succeed is None else list(must_succeed)
    policy = CiPolicy(required_jobs=required, must_succeed=synced, optional_jobs=list(optional))
    return CiDemand(repo="alphavm", repo_path="alphavm", branch="main", policy=policy)


def run(
    jobs: dict[str, JobState],
    *,
    sha: str = SHA,
    state: RunState = "success",
    run_id: str = "451",
    workflow: str | None = "ci.yml",
    event: str | None = "push",
    branch: str | None = "main",
) -> CiRun:
    listed = [CiJob(name=name, state=job_state) for name, job_state in jobs.items()]
    return CiRun(
        run_id=run_id,
        sha=sha,
        state=state,
        workflow=workflow,
        event=event,
        branch=branch,
        jobs=listed,
    )


def report(*runs: CiRun, complete: bool = True) -> CiReport:
    return CiReport(sha=SHA, runs=list(runs), complete=complete)


def of_job(findings: list[CiFinding], name: str) -> CiFinding:
    return next(finding for finding in findings if finding.job == name)


def test_all_required_jobs_and_the_sync_job_green_on_that_commit_pass() -> None:
    findings = judge_ci_report(report(run(GREEN)), demand())
    assert [finding.job for finding in findings] == [*REQUIRED, SYNC]
    assert ci_state(findings) == "passed"
    assert of_job(findings, SYNC).message == "radicle-push succeeded (run #451)"


NOT_SUCCESS: list[tuple[JobState, str, str]] = [
    ("failure", "failed", "failed (run #451)"),
    ("cancelled", "failed", "was cancelled, which proves nothing (run #451)"),
    ("skipped", "failed", "was skipped, so it did not run (run #451)"),
    ("running", "pending", "is still running (run #451)"),
    ("waiting", "pending", "is still waiting for a runner (run #451)"),
]


@pytest.mark.parametrize("name", ["test", SYNC])
@pytest.mark.parametrize(("state", "outcome", "message"), NOT_SUCCESS)
def test_every_other_state_of_a_job_is_refused_by_name(
    name: str, state: JobState, outcome: str, message: str
) -> None:
    findings = judge_ci_report(report(run(GREEN | {name: state})), demand())
    finding = of_job(findings, name)
    assert (finding.outcome, finding.message) == (outcome, f"{name} {message}")
    assert finding.hint
    assert ci_state(findings) == outcome


def test_a_skipped_sync_job_has_the_documented_remedy() -> None:
    finding = of_job(judge_ci_report(report(run(GREEN | {SYNC: "skipped"})), demand()), SYNC)
    assert "git commit --allow-empty -m 'ci: trigger radicle sync' && git push" in finding.hint
    required = of_job(judge_ci_report(report(run(GREEN | {"test": "skipped"})), demand()), "test")
    assert "git commit" not in required.hint


def test_no_answer_from_ci_is_unverifiable() -> None:
    assert ci_state(judge_ci_report(None, demand())) == "unverifiable"


@pytest.mark.parametrize("complete", [True, False])
def test_a_missing_run_is_pending_and_never_passes(complete: bool) -> None:
    findings = judge_ci_report(report(complete=complete), demand())
    assert [finding.outcome for finding in findings] == ["pending"]
    assert "no CI run for commit a1b2c3d4a1b2" in findings[0].message


@pytest.mark.parametrize("sha", [OTHER_SHA, "", SHA[:12]])
def test_a_green_run_of_another_commit_does_not_count(sha: str) -> None:
    assert ci_state(judge_ci_report(report(run(GREEN, sha=sha)), demand())) == "pending"


def test_a_renamed_job_is_missing_and_its_new_name_is_suggested() -> None:
    jobs = {name: state for name, state in GREEN.items() if name != "coverage"}
    findings = judge_ci_report(report(run(jobs | {"coverage-report": "success"})), demand())
    finding = of_job(findings, "coverage")
    assert finding.outcome == "failed"
    assert "run #451 has no job 'coverage'; did you mean 'coverage-report'?" in finding.message
    assert "check, format" in finding.hint


def test_a_job_that_has_not_started_is_pending() -> None:
    running = run({"check": "success"}, state="running")
    findings = judge_ci_report(report(running, complete=False), demand())
    assert of_job(findings, "test").message == "test has not started in run #451"
    assert ci_state(findings) == "pending"


def test_one_failure_decides_before_the_other_jobs_end() -> None:
    jobs = GREEN | {"check": "failure", "test": "running"}
    assert ci_state(judge_ci_report(report(run(jobs, state="running")), demand())) == "failed"


def test_job_names_match_completely_and_case_insensitively() -> None:
    jobs: dict[str, JobState] = {name.upper(): state for name, state in GREEN.items()}
    assert ci_state(judge_ci_report(report(run(jobs)), demand())) == "passed"
    findings = judge_ci_report(report(run(GREEN)), demand(required=["tes"]))
    assert of_job(findings, "tes").outcome == "failed"


def test_a_red_rerun_counts_as_red() -> None:
    red = run(GREEN | {"test": "failure"}, run_id="452", state="failure")
    assert ci_state(judge_ci_report(report(red, run(GREEN)), demand())) == "failed"


def test_a_green_rerun_counts_as_green() -> None:
    red = run(GREEN | {"test": "failure"}, run_id="450", state="failure")
    assert ci_state(judge_ci_report(report(run(GREEN), red), demand())) == "passed"


@pytest.mark.requirement("CC-01")
@pytest.mark.parametrize(
    "other",
    [
        {"branch": "elsewhere"},
        {"branch": "MAIN"},
        {"branch": ""},
        {"branch": "#7"},
        {"event": "workflow_dispatch"},
        {"event": "schedule"},
        {"event": "pull_request", "branch": "#7"},
    ],
)
def test_a_run_for_another_branch_or_event_neither_passes_nor_fails(other: dict[str, Any]) -> None:
    green, red = run(GREEN, run_id="452", **other), run({"test": "failure"}, state="failure")
    assert ci_state(judge_ci_report(report(green), demand())) == "pending"
    assert ci_state(judge_ci_report(report(green, red), demand())) == "failed"
    elsewhere = run({"test": "failure"}, state="failure", run_id="452", **other)
    assert ci_state(judge_ci_report(report(elsewhere, run(GREEN)), demand())) == "passed"


@pytest.mark.requirement("CC-01")
def test_a_newer_run_of_a_pull_request_replaces_no_failed_one() -> None:
    """They may be of two pull requests with different targets."""
    green = run(GREEN, event="pull_request", run_id="452")
    states: list[tuple[RunState, str]] = [
        ("failure", "failed"),
        ("cancelled", "passed"),
        ("running", "pending"),
    ]
    for state, outcome in states:
        older = run({}, event="pull_request", state=state)
        assert ci_state(judge_ci_report(report(green, older), demand())) == outcome


@pytest.mark.requirement("CC-01")
@pytest.mark.parametrize("name", ["\N{KELVIN SIGN}it", "kit\N{NO-BREAK SPACE}", "k\u0131t"])
def test_a_look_alike_is_another_job(name: str) -> None:
    findings = judge_ci_report(report(run({name: "success"})), demand(["kit"], ()))
    assert of_job(findings, "kit").outcome == "failed"
    assert ci_state(judge_ci_report(report(run({" Kit ": "success"})), demand(["kit"], ()))) == (
        "passed"
    )


def test_a_green_run_of_another_event_does_not_hide_a_red_one() -> None:
    red = run(GREEN | {"test": "failure"}, run_id="450", state="failure")
    green = run(GREEN, event="pull_request", run_id="451")
    assert ci_state(judge_ci_report(report(green, red), demand())) == "failed"


def test_a_sync_job_skipped_in_the_pull_request_run_may_succeed_in_the_push_run() -> None:
    pull_request = run(GREEN | {SYNC: "skipped"}, event="pull_request", run_id="452")
    assert ci_state(judge_ci_report(report(pull_request, run(GREEN)), demand())) == "passed"


def test_jobs_may_be_spread_over_workflows() -> None:
    sync = run({SYNC: "success"}, workflow="sync.yml", run_id="452")
    tests = run(dict.fromkeys(REQUIRED, "success"))
    assert ci_state(judge_ci_report(report(sync, tests), demand())) == "passed"


def test_the_worst_of_several_jobs_with_the_same_name_counts() -> None:
    matrix = CiRun(
        run_id="7",
        sha=SHA,
        state="failure",
        jobs=[CiJob(name="test", state="success"), CiJob(name="test", state="failure")],
    )
    assert ci_state(judge_ci_report(report(matrix), demand(["test"], ()))) == "failed"


def test_a_required_job_that_must_succeed_is_named_once() -> None:
    findings = judge_ci_report(report(run(GREEN)), demand([*REQUIRED, "Radicle-Push"]))
    assert [finding.job for finding in findings] == [*REQUIRED, SYNC]


@pytest.mark.requirement("CC-01")
@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        ("failure", "failed"),
        ("cancelled", "failed"),
        ("running", "pending"),
        ("waiting", "pending"),
        ("success", "passed"),
        ("skipped", "passed"),
    ],
)
def test_every_job_counts_beside_the_required_ones(state: JobState, outcome: str) -> None:
    findings = judge_ci_report(report(run(GREEN | {"nightly": state})), demand())
    assert ci_state(findings) == outcome
    if outcome != "passed":
        assert of_job(findings, "nightly").outcome == outcome


def test_the_required_jobs_do_not_hide_a_run_that_failed_without_a_job() -> None:
    broken = run({}, state="failure", workflow="other.yml", run_id="452")
    findings = judge_ci_report(report(broken, run(GREEN)), demand())
    assert "run #452 failed" in [finding.message for finding in findings]
    assert ci_state(findings) == "failed"


@pytest.mark.parametrize("state", ["failure", "cancelled", "skipped", "success"])
def test_an_optional_job_does_not_count(state: JobState) -> None:
    run_state: RunState = "success" if state in ("success", "skipped") else "failure"
    red = report(run(GREEN | {"nightly": state}, state=run_state))
    findings = judge_ci_report(red, demand(optional=("Nightly",)))
    assert [finding.job for finding in findings] == [*REQUIRED, SYNC]
    assert ci_state(findings) == "passed"


def test_optional_jobs_alone_prove_nothing() -> None:
    seen = report(run({"nightly": "success"}))
    assert ci_state(judge_ci_report(seen, demand([], (), ("nightly",)))) == "unverifiable"


@pytest.mark.requirement("CC-01")
@pytest.mark.parametrize("name", [SYNC, "Radicle Sync", "sync_mirror"])
def test_a_skipped_sync_job_is_not_green_even_if_the_policy_does_not_name_it(name: str) -> None:
    jobs: dict[str, JobState] = {"test": "success", name: "skipped"}
    for required in ([], ["test"]):
        findings = judge_ci_report(report(run(jobs)), demand(required, None))
        assert (ci_state(findings), of_job(findings, name).outcome) == ("failed", "failed")
        assert "git commit --allow-empty" in of_job(findings, name).hint
    assert ci_state(judge_ci_report(report(run(jobs)), demand([], ()))) == "passed"
    other: dict[str, JobState] = {"test": "success", "async-tests": "skipped"}
    assert ci_state(judge_ci_report(report(run(other)), demand([], None))) == "passed"


@pytest.mark.parametrize(
    ("jobs", "state", "outcome"),
    [
        ({"a": "success", "b": "success"}, "success", "passed"),
        ({"a": "success", "b": "skipped"}, "success", "passed"),
        ({"a": "skipped", "b": "skipped"}, "success", "failed"),
        ({"a": "success", "b": "failure"}, "failure", "failed"),
        ({"a": "success", "b": "cancelled"}, "cancelled", "failed"),
        ({"a": "success", "b": "running"}, "running", "pending"),
        ({"a": "success", "b": "waiting"}, "running", "pending"),
        ({"a": "success"}, "running", "pending"),
        ({"a": "success"}, "failure", "failed"),
        ({"a": "success"}, "cancelled", "failed"),
        ({}, "success", "unverifiable"),
        ({}, "failure", "failed"),
        ({}, "cancelled", "failed"),
        ({}, "waiting", "pending"),
    ],
)
def test_without_required_jobs_all_of_them_count(
    jobs: dict[str, JobState], state: RunState, outcome: str
) -> None:
    assert ci_state(judge_ci_report(report(run(jobs, state=state)), demand([], ()))) == outcome


@pytest.mark.parametrize("state", ["skipped", "cancelled", "failure", "running", "waiting"])
def test_the_sync_job_must_succeed_even_without_required_jobs(state: JobState) -> None:
    findings = judge_ci_report(report(run({"a": "success", SYNC: state})), demand([]))
    assert ci_state(findings) != "passed"
    assert ci_state(judge_ci_report(report(run({"a": "success"})), demand([]))) == "failed"
    assert (
        ci_state(judge_ci_report(report(run({"a": "success", SYNC: "success"})), demand([])))
        == "passed"
    )


def test_no_findings_prove_nothing() -> None:
    assert ci_state([]) == "unverifiable"


STATES = st.sampled_from(get_args(JobState))
JOBS = st.dictionaries(st.sampled_from([*REQUIRED, SYNC, "other"]), STATES)
RUNS = st.builds(
    run,
    JOBS,
    sha=st.sampled_from([SHA, OTHER_SHA]),
    state=st.sampled_from(get_args(RunState)),
    workflow=st.sampled_from(["a", "b", None]),
)


@given(st.lists(RUNS, max_size=4), st.booleans(), st.sampled_from([[], REQUIRED]))
def test_nothing_passes_without_a_green_sync_job_on_that_commit(
    runs: list[CiRun], complete: bool, required: list[str]
) -> None:
    findings = judge_ci_report(report(*runs, complete=complete), demand(required))
    assert findings
    if ci_state(findings) == "passed":
        seen = {(job.name, job.state) for run in runs if run.sha == SHA for job in run.jobs}
        assert {(name, "success") for name in [*required, SYNC]} <= seen
