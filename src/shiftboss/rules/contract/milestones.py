"""The milestones of the completion contract: their order, and what a DONE report must contain.

A milestone is a view of the state of an assignment. If the last pushed commit failed CI, EXECUTING
is FIXING_CI instead of WORKING.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from shiftboss.errors import ContractViolations, IllegalTransition, InvalidRequest
from shiftboss.protocol.contract.milestone_lines import FORMATS
from shiftboss.protocol.contract.milestones import Done
from shiftboss.protocol.policy import Milestone
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.contract.forbidden_patterns import violation_of

INITIAL: Final[Milestone] = "WORKING"
TERMINAL: Final[Milestone] = "DONE"

TRANSITIONS: Final[dict[Milestone, tuple[Milestone, ...]]] = {
    "WORKING": ("PUSHED_TO_CI", "BLOCKED"),
    "PUSHED_TO_CI": ("FIXING_CI", "DONE", "BLOCKED"),
    "FIXING_CI": ("PUSHED_TO_CI", "BLOCKED"),
    "BLOCKED": ("WORKING", "PUSHED_TO_CI", "FIXING_CI"),
    "DONE": (),
}

_STATE: Final[dict[Milestone, WorkerState]] = {
    "WORKING": WorkerState.EXECUTING,
    "PUSHED_TO_CI": WorkerState.VERIFYING,
    "FIXING_CI": WorkerState.EXECUTING,
    "DONE": WorkerState.COMPLETE,
    "BLOCKED": WorkerState.BLOCKED,
}
_MILESTONE: Final[dict[WorkerState, Milestone]] = {
    WorkerState.VERIFYING: "PUSHED_TO_CI",
    WorkerState.SELF_REVIEW: "PUSHED_TO_CI",
    WorkerState.BLOCKED: "BLOCKED",
    WorkerState.COMPLETE: "DONE",
}


def can_report(present: Milestone | None, new: Milestone) -> bool:
    """A milestone may be reported again, with another substate or another push."""
    if present is None:
        return new == INITIAL
    return new in TRANSITIONS[present] or (new == present and present != TERMINAL)


def check_report_order(present: Milestone | None, new: Milestone) -> None:
    if can_report(present, new):
        return
    legal = [INITIAL] if present is None else list(TRANSITIONS[present])
    before = "no milestone was reported yet" if present is None else f"the milestone is {present}"
    raise IllegalTransition(
        f"{before}, so {new} is not allowed; nothing was changed",
        field="milestone",
        hint=f"allowed now: {', '.join(legal)}" if legal else "the work is done",
        facts={"milestone": present, "legal": legal},
    )


def check_may_read_ci(task_id: str, present: Milestone | None, *, has_pushed: bool) -> None:
    """The CI instructions are loaded at PUSHED_TO_CI, not before: a worker pays for them with every
    further step."""
    if has_pushed or present in ("PUSHED_TO_CI", "FIXING_CI", "DONE"):
        return
    before = "has no milestone yet" if present is None else f"is at {present}"
    raise IllegalTransition(
        f"{task_id} {before}; the CI instructions come with PUSHED_TO_CI",
        field="bead_id",
        hint=f"push, then report {FORMATS['PUSHED_TO_CI']}",
        facts={"milestone": present, "legal": ["PUSHED_TO_CI"]},
    )


def milestone_view(
    state: WorkerState, *, ci_failed: bool, before: Milestone | None = None
) -> Milestone | None:
    """`ci_failed` is about the last pushed commit. A waiting attempt stays at `before`."""
    if state is WorkerState.EXECUTING:
        return "FIXING_CI" if ci_failed else "WORKING"
    if state is WorkerState.WAITING:
        return before
    return _MILESTONE.get(state)


def state_of(milestone: Milestone) -> WorkerState:
    return _STATE[milestone]


def check_done_report(report: Done, must_succeed: Sequence[str]) -> None:
    """A DONE report must name its run, state that all jobs passed, and give the result of the sync
    job, unless `must_succeed` is empty. All of this is only a claim, which the server verifies."""
    missing = []
    if report.ci_run is None:
        missing.append("ci_run")
    if report.all_green is None:
        missing.append("all_green")
    if must_succeed and report.sync_status is None:
        missing.append("sync_status")
    if missing:
        raise InvalidRequest(
            f"DONE: missing {', '.join(missing)}; nothing was changed",
            field=missing[0],
            hint=f"the format is {FORMATS['DONE']}",
            facts={"missing": missing, "forbidden": _patterns(missing)},
        )
    refusal = _violation_in(report)
    if refusal is not None:
        raise refusal


class RunName(NamedTuple):
    """What people call a CI run: `run_id` is written as #451."""

    run_id: str
    url: str | None = None


def check_named_run(named: str, runs: Sequence[RunName], sha: str, field: str) -> None:
    """`named`, the number or the address of a run, must be one of the commit's `runs`."""
    if is_named_run(named, runs):
        return
    known = ", ".join(f"#{run.run_id}" for run in runs)
    raise violation_of(
        "caching_old_run_ids",
        f"{field}: {named} is not a CI run of the pushed commit {sha[:12]}; nothing was changed",
        field=field,
        hint=f"the runs of this commit are: {known}",
    )


def is_named_run(named: str, runs: Sequence[RunName]) -> bool:
    return any(_is_name_of(named, run) for run in runs)


def _is_name_of(named: str, run: RunName) -> bool:
    url = (run.url or "").rstrip("/")
    if "://" in named and url:
        return f"{named}/".startswith(f"{url}/")
    # GitHub's addresses end in the id of the run, which is not its number.
    return named.rpartition("/")[2] in (run.run_id, url.rpartition("/")[2])


def _patterns(missing: Sequence[str]) -> list[str]:
    proof = ["done_without_ci_url"] if {"ci_run", "all_green"} & set(missing) else []
    return [*proof, *(["assuming_radicle_synced"] if "sync_status" in missing else [])]


def _violation_in(report: Done) -> ContractViolations | None:
    if not report.all_green:
        return violation_of(
            "done_without_ci_url",
            f"not all jobs of run {report.ci_run} are green",
            field="all_green",
            hint="report FIXING_CI, and DONE when all jobs are green",
        )
    if report.sync_status in (None, "success"):
        return None
    return violation_of(
        "assuming_radicle_synced",
        f"{report.sync_job} is {report.sync_status}, but it must be success",
        field="sync_status",
        hint="wait for it, or run it: call get_ci_instructions",
    )
