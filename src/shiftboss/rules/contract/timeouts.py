"""Timeouts of milestones (an escalation ladder), and the indicators of a stalled worker.

    WORKING       warn · probe · extend while active · park · salvage · reassign
    PUSHED_TO_CI  warn · check CI · extend while it progresses · restart it once if it is stuck ·
                  escalate to the contact if that does not help
    FIXING_CI     as WORKING, for each attempt; after the last one escalate
    BLOCKED       escalate if nobody has answered

A worker is never parked because CI or the verification is slow. The caller takes a step, stores its
`then`, and asks again. A new milestone starts with a new `LadderState`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

from shiftboss.protocol.policy import Deadlock, Milestone, MilestoneTimeout, Timeouts

StepKind = Literal[
    "none",
    "warn",
    "probe",
    "extend",
    "check_ci",
    "restart_ci",
    "park",
    "salvage",
    "reassign",
    "escalate",
]
# The CI of the tracked commit. "stuck" means that it has waited too long for a runner. That a run
# hangs is known only after two checks, see `_ci_case`.
CiActivity = Literal["none", "running", "stuck", "passed", "failed"]

_NEVER_MS: Final = 2**62


@dataclass(frozen=True, slots=True)
class Activity:
    """What is known about the attempt.

    `held_ms` is how long the server has verified during this milestone; with `server_holds` it is
    verifying now. `worker_since_ms` is when the worker got the task. `ci_mark` changes whenever a
    CI run progresses; it is None if CI could not be checked.
    """

    last_activity_ms: int
    last_commit_ms: int | None = None
    ci_state: CiActivity = "none"
    attempts: int = 1
    held_ms: int = 0
    server_holds: bool = False
    worker_since_ms: int | None = None
    ci_mark: str | None = None

    @property
    def latest_ms(self) -> int:
        return max(self.last_activity_ms, self.last_commit_ms or 0)


@dataclass(frozen=True, slots=True)
class LadderState:
    """The steps taken so far. `probed_for_ms` is the deadline of the last probe."""

    warned: bool = False
    probed_for_ms: int | None = None
    extended_until_ms: int | None = None
    parked_at_ms: int | None = None
    salvaged: bool = False
    ended: bool = False
    told_of_worker_timeout: bool = False
    # What the contact was told about CI, so that it is told only once.
    told_of_ci: str | None = None
    # The mark of CI when it was last given more time.
    ci_mark: str | None = None
    # CI is restarted only once. The caller stores a refusal here.
    ci_restart: Literal["asked", "done", "refused"] | None = None
    ci_restarted_at_ms: int | None = None


class LadderStep(NamedTuple):
    """`then` is the state after the step. For the kind "none", `at_ms` is when to ask again."""

    kind: StepKind
    at_ms: int
    message: str
    then: LadderState


class _LadderCase(NamedTuple):
    milestone: Milestone
    since_ms: int
    now_ms: int
    activity: Activity
    policy: Timeouts
    done: LadderState

    def step(
        self, kind: StepKind, at_ms: int, message: str, **noted: int | bool | str | None
    ) -> LadderStep:
        return LadderStep(kind, at_ms, message, replace(self.done, **noted))  # type: ignore[arg-type]


def next_step(
    milestone: Milestone,
    since_ms: int,
    now_ms: int,
    activity: Activity,
    policy: Timeouts,
    done: LadderState,
) -> LadderStep:
    """The step that is due now, or "none"."""
    step = _upcoming(_LadderCase(milestone, since_ms, now_ms, activity, policy, done))
    if now_ms < step.at_ms:
        return LadderStep("none", step.at_ms, "", done)
    return step


def _upcoming(case: _LadderCase) -> LadderStep:
    if case.milestone == "DONE" or case.done.ended or case.activity.server_holds:
        return case.step("none", _NEVER_MS, "")
    start_ms = case.since_ms + case.activity.held_ms
    if case.milestone == "BLOCKED":
        return case.step(
            "escalate",
            start_ms + case.policy.worker * 1000,
            f"blocked for {_minutes(case.policy.worker)} without an answer",
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


def _worker_overdue(case: _LadderCase, deadline_ms: int) -> LadderStep:
    if case.done.parked_at_ms is not None:
        return _parked(case, case.done.parked_at_ms)
    if case.done.probed_for_ms != deadline_ms:
        return case.step(
            "probe",
            deadline_ms,
            f"timed out in {case.milestone}: checking for activity",
            probed_for_ms=deadline_ms,
        )
    checked_ms = max(case.now_ms, deadline_ms)
    if checked_ms - case.activity.latest_ms <= case.policy.active_within * 1000:
        return _active(case, deadline_ms, checked_ms)
    if _attempts_left(case) == 0:
        return _out_of_attempts(case, deadline_ms)
    return case.step(
        "park",
        deadline_ms,
        f"timed out in {case.milestone}, no activity for {_minutes(case.policy.active_within)}",
        parked_at_ms=checked_ms,
    )


def _active(case: _LadderCase, deadline_ms: int, checked_ms: int) -> LadderStep:
    """Extend while the worker is active. Escalate once when its total time is over."""
    worker_since_ms = case.activity.worker_since_ms
    started_ms = case.since_ms if worker_since_ms is None else worker_since_ms
    working_ms = checked_ms - started_ms - case.activity.held_ms
    if working_ms >= case.policy.worker * 1000 and not case.done.told_of_worker_timeout:
        return case.step(
            "escalate",
            deadline_ms,
            f"working for more than {_minutes(case.policy.worker)}, and still active",
            told_of_worker_timeout=True,
        )
    return _extended(case, deadline_ms, "active: given more time", checked_ms)


def _parked(case: _LadderCase, parked_at_ms: int) -> LadderStep:
    grace_ms = case.policy.active_within * 1000
    if case.done.salvaged:
        return case.step(
            "reassign",
            parked_at_ms + grace_ms,
            "the task goes to another worker",
            ended=True,
        )
    if case.activity.latest_ms > parked_at_ms:
        back_ms = case.activity.latest_ms
        return _extended(case, back_ms, "back at work", max(case.now_ms, back_ms))
    return case.step(
        "salvage",
        parked_at_ms + grace_ms,
        "parked without activity: its commits are saved",
        salvaged=True,
    )


def _ci_overdue(case: _LadderCase, deadline_ms: int, timeout_seconds: int) -> LadderStep:
    if case.done.probed_for_ms != deadline_ms:
        return case.step(
            "check_ci", deadline_ms, "CI is overdue: checking it", probed_for_ms=deadline_ms
        )
    state = _ci_case(case)
    until_ms = max(case.now_ms, deadline_ms) + timeout_seconds * 1000
    if case.done.ci_restart == "asked" and state not in ("passed", "failed"):
        message = "CI was restarted: given more time"
        return case.step(
            "extend", deadline_ms, message, ci_restart="done", extended_until_ms=until_ms
        )
    if state in _NOT_PROGRESSING and case.done.ci_restart is None:
        return _restart(case, deadline_ms, _NOT_PROGRESSING[state])
    kind, message = _ci_step(state, case.done)
    noted: dict[str, int | str | None] = {"extended_until_ms": until_ms}
    if state == "running":
        noted["ci_mark"] = case.activity.ci_mark
    if kind != "escalate":
        return case.step(kind, deadline_ms, message, **noted)
    if case.done.told_of_ci == state:
        kind, message = "extend", f"{message}; already reported"
    return case.step(kind, deadline_ms, message, **noted, told_of_ci=state)


def _ci_case(case: _LadderCase) -> _CiCase:
    """A run hangs if it has not progressed since it was last given more time, which is a full
    timeout of the milestone ago."""
    state, mark = case.activity.ci_state, case.activity.ci_mark
    return "hanging" if state == "running" and mark and mark == case.done.ci_mark else state


def _restart(case: _LadderCase, deadline_ms: int, what: str) -> LadderStep:
    """After the restart, the full timeout runs again. If the restart fails, the caller stores the
    refusal in the state."""
    return case.step(
        "restart_ci",
        deadline_ms,
        f"{what}: restart it, then wait",
        ci_restart="asked",
        ci_restarted_at_ms=max(case.now_ms, deadline_ms),
    )


def _ci_step(state: _CiCase, done: LadderState) -> tuple[StepKind, str]:
    if state not in _NOT_PROGRESSING:
        return _CI_STEPS[state]
    how = _NOT_RESTARTED if done.ci_restart == "refused" else "even after a restart"
    return "escalate", f"{_NOT_PROGRESSING[state]}, {how}"


_CiCase = CiActivity | Literal["hanging"]
_NOT_PROGRESSING: Final[dict[str, str]] = {
    "stuck": "CI is stuck",
    "hanging": "CI hangs: its run makes no progress",
}
_NOT_RESTARTED: Final = (
    "and cannot be restarted from here: restart it by hand where it runs, or give the token of the "
    "forge permission to write actions"
)
_CI_STEPS: Final[dict[str, tuple[StepKind, str]]] = {
    "running": ("extend", "CI is still running: given more time"),
    "none": (
        "escalate",
        "there is no CI run for the pushed commit; does a workflow run on push to its branch?",
    ),
    "passed": ("check_ci", "CI has finished: reading its result"),
    "failed": ("check_ci", "CI has finished: reading its result"),
}


def _extended(case: _LadderCase, at_ms: int, message: str, checked_ms: int) -> LadderStep:
    return case.step(
        "extend",
        at_ms,
        message,
        parked_at_ms=None,
        extended_until_ms=checked_ms + case.policy.active_within * 1000,
    )


def _attempts_left(case: _LadderCase) -> int:
    """Negative if more attempts were started than allowed."""
    if case.milestone != "FIXING_CI":
        return 1
    return case.policy.milestones.FIXING_CI.max_attempts - case.activity.attempts


def _out_of_attempts(case: _LadderCase, at_ms: int) -> LadderStep:
    maximum = case.policy.milestones.FIXING_CI.max_attempts
    return case.step("escalate", at_ms, f"{maximum} attempts to fix CI have failed", ended=True)


def _minutes(seconds: int) -> str:
    """`20 m`, or `90 s` if it is not a whole number of minutes."""
    return f"{seconds // 60} m" if seconds % 60 == 0 else f"{seconds} s"


IndicatorKind = Literal["worker_idle", "ci_stuck_in_pending", "no_commits", "api_errors"]


class StallSigns(NamedTuple):
    """`since_ms` is the start of the milestone. `ci_waiting_since_ms` is set while its CI run waits
    for a runner. `api_errors` counts failed calls in a row."""

    milestone: Milestone
    since_ms: int
    last_activity_ms: int
    last_commit_ms: int | None = None
    ci_waiting_since_ms: int | None = None
    api_errors: int = 0


class StallIndicator(NamedTuple):
    kind: IndicatorKind
    message: str


def stall_indicators(
    signs: StallSigns, now_ms: int, policy: Deadlock, *, stuck_after_seconds: int
) -> list[StallIndicator]:
    """The reasons to suspect that the worker is stalled. While it waits for CI or for an answer, it
    may be idle and has nothing to commit."""
    stalled = []
    idle_ms = now_ms - signs.last_activity_ms
    if signs.milestone in ("WORKING", "FIXING_CI") and idle_ms > policy.idle * 1000:
        stalled.append(StallIndicator("worker_idle", f"no activity for {_rounded(idle_ms)}"))
    waiting_ms = 0 if signs.ci_waiting_since_ms is None else now_ms - signs.ci_waiting_since_ms
    if signs.milestone == "PUSHED_TO_CI" and waiting_ms > stuck_after_seconds * 1000:
        stalled.append(
            StallIndicator(
                "ci_stuck_in_pending",
                f"the CI run has waited {_rounded(waiting_ms)} for a runner",
            )
        )
    working_ms = now_ms - signs.since_ms
    committed = signs.last_commit_ms is not None and signs.last_commit_ms >= signs.since_ms
    if signs.milestone == "WORKING" and not committed and working_ms > policy.no_commits * 1000:
        stalled.append(
            StallIndicator(
                "no_commits", f"no commit {_rounded(working_ms)} after the start of WORKING"
            )
        )
    if signs.api_errors > policy.api_errors:
        stalled.append(
            StallIndicator("api_errors", f"{signs.api_errors} API calls failed in a row")
        )
    return stalled


def _rounded(duration_ms: int) -> str:
    """`11 m`, or `45 s` below a minute, rounded down."""
    return f"{duration_ms // 60_000} m" if duration_ms >= 60_000 else f"{duration_ms // 1000} s"
