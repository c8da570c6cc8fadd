"""Signs that nothing moves any more."""

from __future__ import annotations

from typing import Literal, NamedTuple

from shiftboss.protocol.policy import Deadlock, Milestone

IndicatorKind = Literal["worker_idle", "ci_stuck_in_pending", "no_commits", "api_errors"]


class Signs(NamedTuple):
    """`since_ms`: when the milestone began. `ci_waiting_since_ms`: since when its run has waited
    for a runner. `api_errors`: failed calls in a row."""

    milestone: Milestone
    since_ms: int
    last_activity_ms: int
    last_commit_ms: int | None = None
    ci_waiting_since_ms: int | None = None
    api_errors: int = 0


class Indicator(NamedTuple):
    kind: IndicatorKind
    message: str


def indicators(
    signs: Signs, now_ms: int, policy: Deadlock, *, stuck_after_seconds: int
) -> list[Indicator]:
    """A worker that waits for its CI or for an answer may be idle, and has nothing to commit."""
    found = []
    idle_ms = now_ms - signs.last_activity_ms
    if signs.milestone in ("WORKING", "FIXING_CI") and idle_ms > policy.idle * 1000:
        found.append(Indicator("worker_idle", f"no sign of work for {_minutes(idle_ms)}"))
    waiting_ms = 0 if signs.ci_waiting_since_ms is None else now_ms - signs.ci_waiting_since_ms
    if signs.milestone == "PUSHED_TO_CI" and waiting_ms > stuck_after_seconds * 1000:
        found.append(
            Indicator(
                "ci_stuck_in_pending", f"the CI run has waited {_minutes(waiting_ms)} for a runner"
            )
        )
    working_ms = now_ms - signs.since_ms
    committed = signs.last_commit_ms is not None and signs.last_commit_ms >= signs.since_ms
    if signs.milestone == "WORKING" and not committed and working_ms > policy.no_commits * 1000:
        found.append(
            Indicator("no_commits", f"no commit {_minutes(working_ms)} after WORKING began")
        )
    if signs.api_errors > policy.api_errors:
        found.append(Indicator("api_errors", f"{signs.api_errors} API calls failed in a row"))
    return found


def _minutes(duration_ms: int) -> str:
    return f"{duration_ms // 60_000} m" if duration_ms >= 60_000 else f"{duration_ms // 1000} s"
