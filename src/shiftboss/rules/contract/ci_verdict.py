"""Judges the CI of one commit, job by job. Only a job that was seen to succeed passes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple

from shiftboss.protocol.ci import CiDemand, CiJob, CiReport, CiRun, JobState
from shiftboss.protocol.policy import CiPolicy
from shiftboss.rules.contract.ci_runs import counts, job_key, newest_runs, why_not_counted
from shiftboss.rules.documents.wording import did_you_mean

CiOutcome = Literal["passed", "failed", "pending", "unverifiable"]

# A sync job runs only for a push, so a skipped one needs another push.
RESYNC_COMMAND: Final = "git commit --allow-empty -m 'ci: trigger radicle sync' && git push"
_RESYNC_HINT: Final = f"push again so that it runs: {RESYNC_COMMAND}"
_NO_SYNC_JOB_HINT: Final = (
    "if it publishes nothing, list the real sync jobs in must_succeed of the policy"
)

# How the contract's own check finds the sync job: `radicle-push`, `Radicle Sync`; but not `async`.
_SYNC_JOB: Final = re.compile(r"(?<![a-z])(?:radicle|sync)(?![a-z])", re.IGNORECASE | re.ASCII)

# If several jobs have the same name, the first of these states that one of them has decides. A job
# that was skipped in one run may have succeeded in another run of the same commit.
_ORDER: Final[tuple[JobState, ...]] = (
    "failure",
    "cancelled",
    "running",
    "waiting",
    "success",
    "skipped",
)
_OUTCOME: Final[dict[JobState, CiOutcome]] = {
    "failure": "failed",
    "cancelled": "failed",
    "running": "pending",
    "waiting": "pending",
    "success": "passed",
    "skipped": "failed",
}
_MESSAGE: Final[dict[JobState, str]] = {
    "failure": "failed",
    "cancelled": "was cancelled, which proves nothing",
    "running": "is still running",
    "waiting": "is still waiting for a runner",
    "success": "succeeded",
    "skipped": "was skipped, so it did not run",
}
_HINT: Final[dict[JobState, str]] = {
    "failure": "read its log, fix the cause, push the fix and report PUSHED_TO_CI",
    "cancelled": "start the run again, or push again",
    "running": "wait: the server watches the run",
    "waiting": "wait: the server watches the run; `shiftboss doctor` checks the runners",
    "success": "",
    "skipped": "a required job must run: fix the jobs it needs, or the condition that skips it",
}


class CiFinding(NamedTuple):
    """Without `job`, the finding is about the commit or a whole run."""

    outcome: CiOutcome
    job: str | None
    message: str
    hint: str = ""


class _JobOutcome(NamedTuple):
    run: CiRun
    job: CiJob


def judge_ci_report(report: CiReport | None, demand: CiDemand) -> list[CiFinding]:
    """The findings about the pushed commit, at least one. The runs of `report` are newest first.
    None means that CI could not be reached."""
    if report is None:
        return [CiFinding("unverifiable", None, f"the CI of {demand.repo} did not respond")]
    runs = [run for run in runs_of_commit(report) if counts(run, demand)]
    if not runs:
        return [_no_run(report, demand)]
    ci = demand.policy
    seen = [
        _JobOutcome(run, job)
        for run in runs
        for job in run.jobs
        if not _among(job.name, ci.optional_jobs)
    ]
    synced = _sync_jobs(ci, seen)
    required = [name for name in _distinct(ci.required_jobs) if not _among(name, synced)]
    findings = [_job_finding(name, seen, runs) for name in required]
    findings += _other_jobs(runs, seen, required, synced)
    resync = _RESYNC_HINT if ci.must_succeed is not None else f"{_RESYNC_HINT}; {_NO_SYNC_JOB_HINT}"
    return findings + [_job_finding(name, seen, runs, resync) for name in synced]


def ci_state(findings: Sequence[CiFinding]) -> CiOutcome:
    """The overall outcome. One failure decides, and no findings prove nothing."""
    outcomes = {finding.outcome for finding in findings}
    for outcome in ("failed", "pending", "unverifiable", "passed"):
        if outcome in outcomes:
            return outcome
    return "unverifiable"


def runs_of_commit(report: CiReport) -> list[CiRun]:
    """The newest run of each workflow, event and branch. A push and a pull request can run the
    same workflow for one commit. Both count, so that a green run does not hide a red one."""
    sha = report.sha.lower()
    return newest_runs(run for run in report.runs if run.sha and run.sha.lower() == sha)


def _no_run(report: CiReport, demand: CiDemand) -> CiFinding:
    message = f"there is no CI run for commit {report.sha[:12]} of {demand.repo}"
    hint = f"was it pushed to {demand.branch}, and does a workflow run on push?"
    others = [
        f"run #{run.run_id} does not count, because it {why_not_counted(run, demand)}"
        for run in report.not_counted
        if not counts(run, demand)
    ]
    if others:
        message = f"{message} on {demand.branch}: {'; '.join(others)}"
        hint = (
            f"push it to {demand.branch}; a run for another event counts if ci.events of the "
            "policy has that event"
        )
    return CiFinding("pending", None, message, hint)


def _job_finding(
    name: str, seen: Sequence[_JobOutcome], runs: Sequence[CiRun], if_skipped: str | None = None
) -> CiFinding:
    matching = [outcome for outcome in seen if _same(outcome.job.name, name)]
    if not matching:
        return _missing_job(name, seen, runs)
    state, decisive = next(
        (state, outcome) for state in _ORDER for outcome in matching if outcome.job.state == state
    )
    hint = if_skipped if state == "skipped" and if_skipped else _HINT[state]
    return CiFinding(_OUTCOME[state], name, _sentence(decisive, state), hint)


def _missing_job(name: str, seen: Sequence[_JobOutcome], runs: Sequence[CiRun]) -> CiFinding:
    where = ", ".join(f"#{run.run_id}" for run in runs)
    if any(run.state in ("waiting", "running") for run in runs):
        return CiFinding(
            "pending", name, f"{name} has not started in run {where}", _HINT["running"]
        )
    names = [outcome.job.name for outcome in seen]
    return CiFinding(
        "failed",
        name,
        f"run {where} has no job {name!r}{did_you_mean(name, names)}",
        f"was it renamed? The jobs of the run are: {', '.join(names[:20]) or 'no jobs'}",
    )


def _sync_jobs(ci: CiPolicy, seen: Sequence[_JobOutcome]) -> list[str]:
    """The jobs that must not be skipped. A policy that does not name them means those of the run
    that the contract's own check looks for."""
    if ci.must_succeed is not None:
        return _distinct(ci.must_succeed)
    return _distinct(outcome.job.name for outcome in seen if _SYNC_JOB.search(outcome.job.name))


def _other_jobs(
    runs: Iterable[CiRun],
    seen: Sequence[_JobOutcome],
    required: Sequence[str],
    synced: Sequence[str],
) -> list[CiFinding]:
    """All jobs must pass, not only those that the policy names. A job that the workflow skipped is
    fine, unless the policy requires it or nothing else ran."""
    findings = [finding for run in runs if (finding := _run_finding(run)) is not None]
    others = [outcome for outcome in seen if not _among(outcome.job.name, [*required, *synced])]
    findings += [
        CiFinding(
            _OUTCOME[outcome.job.state],
            outcome.job.name,
            _sentence(outcome, outcome.job.state),
            _HINT[outcome.job.state],
        )
        for outcome in others
        if outcome.job.state != "skipped"
    ]
    if others and not required and all(outcome.job.state == "skipped" for outcome in others):
        findings.append(
            CiFinding(
                "failed", None, "every job was skipped, so nothing was tested", _HINT["skipped"]
            )
        )
    return findings


def _run_finding(run: CiRun) -> CiFinding | None:
    """What the jobs do not show: a run can fail before it has jobs, and more jobs may follow."""
    if run.state in ("waiting", "running"):
        message = _MESSAGE[run.state]
        return CiFinding("pending", None, f"run #{run.run_id} {message}", _HINT[run.state])
    unfinished = [job for job in run.jobs if job.state in ("waiting", "running")]
    failed = [job for job in run.jobs if job.state in ("failure", "cancelled")]
    if run.state != "success" and not failed and not unfinished:
        return CiFinding(
            "failed", None, f"run #{run.run_id} {_MESSAGE[run.state]}", _HINT[run.state]
        )
    if not run.jobs:
        return CiFinding("unverifiable", None, f"run #{run.run_id} reports no jobs")
    return None


def _sentence(outcome: _JobOutcome, state: JobState) -> str:
    return f"{outcome.job.name} {_MESSAGE[state]} (run #{outcome.run.run_id})"


def _distinct(names: Iterable[str]) -> list[str]:
    return list({job_key(name): name for name in names}.values())


def _among(name: str, names: Iterable[str]) -> bool:
    return any(_same(name, other) for other in names)


def _same(one: str, other: str) -> bool:
    return job_key(one) == job_key(other)
