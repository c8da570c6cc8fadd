"""The ladder of a milestone that takes too long: warn, probe, then extend or park, salvage and
reassign.

    WORKING       warn · probe · extend while active · park · salvage · reassign
    PUSHED_TO_CI  warn · ask the CI · extend while it runs · tell the orchestrator when it is stuck
    FIXING_CI     as WORKING, for each attempt; after the last one the orchestrator is told
    BLOCKED       tell the orchestrator that nobody has helped

The time of the CI and of verification is the server's: nobody is parked for it. A caller takes a
step, keeps its `then`, and asks again; a new milestone begins with a new `LadderState`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

from shiftboss.protocol.policy import Milestone, MilestoneTimeout, Timeouts

StepKind = Literal[
    "none",
    "warn",
    "probe",
    "extend",
    "check_ci",
    "park",
    "salvage",
    "reassign",
    "escalate",
]
# What is known of the CI of the tracked commit. "stuck": waits for a runner too long.
CiActivity = Literal["none", "running", "stuck", "passed", "failed"]

_NEVER_MS: Final = 2**62


@dataclass(frozen=True, slots=True)
class Activity:
    """What a probe finds. `held_ms` is how long the server verified during this milestone, and
    `server_holds` says that it does so now. `worker_since_ms`: when the worker got the task."""

    last_activity_ms: int
    last_commit_ms: int | None = None
    ci_state: CiActivity = "none"
    attempts: int = 1
    held_ms: int = 0
    server_holds: bool = False
    worker_since_ms: int | None = None

    @property
    def latest_ms(self) -> int:
        return max(self.last_activity_ms, self.last_commit_ms or 0)


@dataclass(frozen=True, slots=True)
class LadderState:
    """The steps that were taken. `probed_for_ms` is the deadline that the last probe was for."""

    warned: bool = False
    probed_for_ms: int | None = None
    extended_until_ms: int | None = None
    parked_at_ms: int | None = None
    salvaged: bool = False
    ended: bool = False
    told_of_worker_timeout: bool = False


class Step(NamedTuple):
    """`then` is the state once the step was taken. With the kind "none", `at_ms` is when to ask
    again."""

    kind: StepKind
    at_ms: int
    message: str
    then: LadderState


class _Case(NamedTuple):
    milestone: Milestone
    since_ms: int
    now_ms: int
    activity: Activity
    policy: Timeouts
    done: LadderState

    def step(self, kind: StepKind, at_ms: int, message: str, **noted: int | bool | None) -> Step:
        return Step(kind, at_ms, message, replace(self.done, **noted))  # type: ignore[arg-type]


def next_step(
    milestone: Milestone,
    since_ms: int,
    now_ms: int,
    activity: Activity,
    policy: Timeouts,
    done: LadderState,
) -> Step:
    """What is due now; "none" when nothing is."""
    step = _upcoming(_Case(milestone, since_ms, now_ms, activity, policy, done))
    if now_ms < step.at_ms:
        return Step("none", step.at_ms, "", done)
    return step


def next_at_ms(
    milestone: Milestone,
    since_ms: int,
    activity: Activity,
    policy: Timeouts,
    done: LadderState,
) -> int | None:
    """When the next step is due, as far as it is known now; None: never."""
    step = _upcoming(_Case(milestone, since_ms, since_ms, activity, policy, done))
    return None if step.at_ms == _NEVER_MS else step.at_ms


def _upcoming(case: _Case) -> Step:
    if case.milestone == "DONE" or case.done.ended or case.activity.server_holds:
        return case.step("none", _NEVER_MS, "")
    start_ms = case.since_ms + case.activity.held_ms
    if case.milestone == "BLOCKED":
        return case.step(
            "escalate",
            start_ms + case.policy.worker * 1000,
            f"blocked for {_minutes(case.policy.worker)} and nobody has helped",
            ended=True,
        )
    limits: MilestoneTimeout = getattr(case.policy.milestones, case.milestone)
    if _attempts_left(case) < 0:
        return _out_of_attempts(case, start_ms)
    if not case.done.warned:
        return case.step(
            "warn",
            start_ms + limits.warning_at * 1000,
            f"{case.milestone} for {_minutes(limits.warning_at)}; "
            f"the limit is {_minutes(limits.timeout)}",
            warned=True,
        )
    deadline_ms = max(start_ms + limits.timeout * 1000, case.done.extended_until_ms or 0)
    if case.milestone == "PUSHED_TO_CI":
        return _ci_overdue(case, deadline_ms, limits.timeout)
    return _worker_overdue(case, deadline_ms)


def _worker_overdue(case: _Case, deadline_ms: int) -> Step:
    if case.done.parked_at_ms is not None:
        return _parked(case, case.done.parked_at_ms)
    if case.done.probed_for_ms != deadline_ms:
        return case.step(
            "probe",
            deadline_ms,
            f"timed out in {case.milestone}: is it alive?",
            probed_for_ms=deadline_ms,
        )
    looked_ms = max(case.now_ms, deadline_ms)
    if looked_ms - case.activity.latest_ms <= case.policy.active_within * 1000:
        return _active(case, deadline_ms, looked_ms)
    if _attempts_left(case) == 0:
        return _out_of_attempts(case, deadline_ms)
    return case.step(
        "park",
        deadline_ms,
        f"timed out in {case.milestone}, no sign of work for {_minutes(case.policy.active_within)}",
        parked_at_ms=looked_ms,
    )


def _active(case: _Case, deadline_ms: int, looked_ms: int) -> Step:
    """It goes on while it shows progress. Once its whole time is over, somebody is told."""
    worker_since_ms = case.activity.worker_since_ms
    began_ms = case.since_ms if worker_since_ms is None else worker_since_ms
    at_work_ms = looked_ms - began_ms - case.activity.held_ms
    if at_work_ms >= case.policy.worker * 1000 and not case.done.told_of_worker_timeout:
        return case.step(
            "escalate",
            deadline_ms,
            f"at work for more than {_minutes(case.policy.worker)}, and still active",
            told_of_worker_timeout=True,
        )
    return _extended(case, deadline_ms, "active: given more time", looked_ms)


def _parked(case: _Case, parked_at_ms: int) -> Step:
    grace_ms = case.policy.active_within * 1000
    if case.done.salvaged:
        return case.step(
            "reassign", parked_at_ms + grace_ms, "the task goes to another worker", ended=True
        )
    if case.activity.latest_ms > parked_at_ms:
        back_ms = case.activity.latest_ms
        return _extended(case, back_ms, "back at work", max(case.now_ms, back_ms))
    return case.step(
        "salvage",
        parked_at_ms + grace_ms,
        "parked and silent: its commits are kept",
        salvaged=True,
    )


def _ci_overdue(case: _Case, deadline_ms: int, timeout_seconds: int) -> Step:
    if case.done.probed_for_ms != deadline_ms:
        return case.step(
            "check_ci", deadline_ms, "CI takes long: ask it", probed_for_ms=deadline_ms
        )
    kind, message = _CI_STEPS[case.activity.ci_state]
    until_ms = max(case.now_ms, deadline_ms) + timeout_seconds * 1000
    return case.step(kind, deadline_ms, message, extended_until_ms=until_ms)


_CI_STEPS: Final[dict[CiActivity, tuple[StepKind, str]]] = {
    "running": ("extend", "CI is still running: given more time"),
    "stuck": ("escalate", "CI is stuck: restart it, then wait"),
    "none": ("escalate", "there is no CI run for the pushed commit"),
    "passed": ("check_ci", "CI has finished: take its result"),
    "failed": ("check_ci", "CI has finished: take its result"),
}


def _extended(case: _Case, at_ms: int, message: str, looked_ms: int) -> Step:
    return case.step(
        "extend",
        at_ms,
        message,
        parked_at_ms=None,
        extended_until_ms=looked_ms + case.policy.active_within * 1000,
    )


def _attempts_left(case: _Case) -> int:
    """Below zero: more were begun than there are."""
    if case.milestone != "FIXING_CI":
        return 1
    return case.policy.milestones.FIXING_CI.max_attempts - case.activity.attempts


def _out_of_attempts(case: _Case, at_ms: int) -> Step:
    maximum = case.policy.milestones.FIXING_CI.max_attempts
    return case.step("escalate", at_ms, f"{maximum} attempts to fix the CI have failed", ended=True)


def _minutes(seconds: int) -> str:
    return f"{seconds // 60} m" if seconds % 60 == 0 else f"{seconds} s"
