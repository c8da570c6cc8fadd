"""What the CI says about one commit, job by job. Nothing passes that was not seen to succeed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple

from shiftboss.protocol.ci import CiDemand, CiJob, CiReport, CiRun, JobState
from shiftboss.rules.documents.wording import did_you_mean

CiOutcome = Literal["passed", "failed", "pending", "unverifiable"]

# A skipped sync job runs only for a push, so a push it must be.
RESYNC_COMMAND: Final = "git commit --allow-empty -m 'ci: trigger radicle sync' && git push"

# When a name has several jobs, the first of these that one of them is in decides. A job that is
# skipped in one run may have been done in another run of the same commit.
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
    "cancelled": "was cancelled: it has proven nothing",
    "running": "is still running",
    "waiting": "still waits for a runner",
    "success": "succeeded",
    "skipped": "was skipped: it did not happen",
}
_HINT: Final[dict[JobState, str]] = {
    "failure": "read its log, mend the cause, push the fix and report PUSHED_TO_CI",
    "cancelled": "have it run again, or push again",
    "running": "wait: the server watches the run",
    "waiting": "wait: the server watches the run; `shiftboss doctor` looks at the runners",
    "success": "",
    "skipped": "a required job must run: mend what it waits for, or the condition that skips it",
}


class CiFinding(NamedTuple):
    """`job` None: it is about the commit or a run as a whole."""

    outcome: CiOutcome
    job: str | None
    message: str
    hint: str = ""


class _JobOutcome(NamedTuple):
    run: CiRun
    job: CiJob


def judge(report: CiReport | None, demand: CiDemand) -> list[CiFinding]:
    """`report` is about the commit that was pushed, its runs newest first; None: the CI could not
    be asked. Never empty."""
    if report is None:
        return [CiFinding("unverifiable", None, f"the CI of {demand.repo} gave no answer")]
    runs = _newest_of_the_commit(report)
    if not runs:
        return [
            CiFinding(
                "pending",
                None,
                f"there is no CI run for commit {report.sha[:12]} of {demand.repo}",
                f"was it pushed to {demand.branch}, and does a workflow run at a push?",
            )
        ]
    seen = [_JobOutcome(run, job) for run in runs for job in run.jobs]
    synced = _distinct(demand.policy.must_succeed)
    required = [name for name in _distinct(demand.policy.required_jobs) if not _among(name, synced)]
    findings = [_named(name, seen, runs, is_synced=False) for name in required]
    if not demand.policy.required_jobs:
        findings += _all_jobs(runs, seen, synced)
    return findings + [_named(name, seen, runs, is_synced=True) for name in synced]


def ci_state(findings: Sequence[CiFinding]) -> CiOutcome:
    """One failure decides at once. Nothing found is nothing proven."""
    outcomes = {finding.outcome for finding in findings}
    for outcome in ("failed", "pending", "unverifiable", "passed"):
        if outcome in outcomes:
            return outcome
    return "unverifiable"


def _newest_of_the_commit(report: CiReport) -> list[CiRun]:
    """The first of each workflow. A push and a pull request run the same workflow side by side:
    each of them counts, so that the green one does not hide the red one."""
    newest: dict[tuple[str | None, str | None], CiRun] = {}
    for run in report.runs:
        if run.sha and run.sha.lower() == report.sha.lower():
            newest.setdefault((run.workflow, run.event), run)
    return list(newest.values())


def _named(
    name: str, seen: Sequence[_JobOutcome], runs: Sequence[CiRun], *, is_synced: bool
) -> CiFinding:
    found = [one for one in seen if _same(one.job.name, name)]
    if not found:
        return _not_there(name, seen, runs)
    state, decisive = next(
        (state, one) for state in _ORDER for one in found if one.job.state == state
    )
    hint = _HINT[state]
    if state == "skipped" and is_synced:
        hint = f"push again so that it runs: {RESYNC_COMMAND}"
    return CiFinding(_OUTCOME[state], name, _sentence(decisive, state), hint)


def _not_there(name: str, seen: Sequence[_JobOutcome], runs: Sequence[CiRun]) -> CiFinding:
    where = ", ".join(f"#{run.run_id}" for run in runs)
    if any(run.state in ("waiting", "running") for run in runs):
        return CiFinding("pending", name, f"{name} has not begun in run {where}", _HINT["running"])
    names = [one.job.name for one in seen]
    return CiFinding(
        "failed",
        name,
        f"run {where} has no job {name!r}{did_you_mean(name, names)}",
        f"was it renamed? The run has: {', '.join(names[:20]) or 'no jobs'}",
    )


def _all_jobs(
    runs: Iterable[CiRun], seen: Sequence[_JobOutcome], synced: Sequence[str]
) -> list[CiFinding]:
    """Without a list of required jobs every job counts; one that is skipped for a reason of the
    workflow does no harm, as long as something was done at all."""
    findings = [found for run in runs if (found := _run_as_a_whole(run)) is not None]
    others = [one for one in seen if not _among(one.job.name, synced)]
    findings += [
        CiFinding(
            _OUTCOME[one.job.state],
            one.job.name,
            _sentence(one, one.job.state),
            _HINT[one.job.state],
        )
        for one in others
        if one.job.state != "skipped"
    ]
    if others and all(one.job.state == "skipped" for one in others):
        findings.append(
            CiFinding("failed", None, "every job was skipped: nothing was tested", _HINT["skipped"])
        )
    return findings


def _run_as_a_whole(run: CiRun) -> CiFinding | None:
    """What its jobs do not say: a run can fail before it has any, and more may be to come."""
    if run.state in ("waiting", "running"):
        message = _MESSAGE[run.state]
        return CiFinding("pending", None, f"run #{run.run_id} {message}", _HINT[run.state])
    unfinished = [job for job in run.jobs if job.state in ("waiting", "running")]
    bad = [job for job in run.jobs if job.state in ("failure", "cancelled")]
    if run.state != "success" and not bad and not unfinished:
        return CiFinding(
            "failed", None, f"run #{run.run_id} {_MESSAGE[run.state]}", _HINT[run.state]
        )
    if not run.jobs:
        return CiFinding("unverifiable", None, f"run #{run.run_id} tells of no job")
    return None


def _sentence(one: _JobOutcome, state: JobState) -> str:
    return f"{one.job.name} {_MESSAGE[state]} (run #{one.run.run_id})"


def _distinct(names: Iterable[str]) -> list[str]:
    return list({name.strip().casefold(): name for name in names}.values())


def _among(name: str, names: Iterable[str]) -> bool:
    return any(_same(name, one) for one in names)


def _same(one: str, other: str) -> bool:
    return one.strip().casefold() == other.strip().casefold()
