"""The timeout ladder and the signs of a deadlock, to the millisecond."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftboss.protocol.policy import Deadlock, Milestone, Timeouts
from shiftboss.rules.contract.timeouts import (
    Activity,
    CiActivity,
    LadderState,
    LadderStep,
    StallSigns,
    next_step,
    stall_indicators,
)

MINUTE = 60_000
SINCE = 1_800_000_000_000
NEVER = SINCE + 10_000 * MINUTE
POLICY = Timeouts()
SILENT = Activity(last_activity_ms=SINCE)


def step(
    milestone: Milestone,
    now_ms: int,
    activity: Activity = SILENT,
    done: LadderState = LadderState(),  # noqa: B008 - frozen
) -> LadderStep:
    return next_step(milestone, SINCE, now_ms, activity, POLICY, done)


def at_the_edge(
    milestone: Milestone, at_ms: int, activity: Activity, done: LadderState
) -> LadderStep:
    """The step due at `at_ms`: not a millisecond earlier, but also a millisecond later."""
    before = step(milestone, at_ms - 1, activity, done)
    assert (before.kind, before.at_ms, before.then) == ("none", at_ms, done)
    due = step(milestone, at_ms, activity, done)
    assert step(milestone, at_ms + 1, activity, done).kind == due.kind
    assert due.kind != "none"
    return due


@pytest.mark.parametrize(
    ("milestone", "warning", "timeout"),
    [("WORKING", 15, 20), ("FIXING_CI", 10, 15), ("PUSHED_TO_CI", 10, 15)],
)
def test_a_warning_comes_first_and_then_a_probe(
    milestone: Milestone, warning: int, timeout: int
) -> None:
    warned = at_the_edge(milestone, SINCE + warning * MINUTE, SILENT, LadderState())
    assert warned.kind == "warn"
    looked = at_the_edge(milestone, SINCE + timeout * MINUTE, SILENT, warned.then)
    assert looked.kind == ("check_ci" if milestone == "PUSHED_TO_CI" else "probe")


def probed(milestone: Milestone = "WORKING", minutes: int = 20) -> LadderState:
    return LadderState(warned=True, probed_for_ms=SINCE + minutes * MINUTE)


@pytest.mark.parametrize(("milestone", "minutes"), [("WORKING", 20), ("FIXING_CI", 15)])
def test_a_silent_worker_is_parked_salvaged_and_replaced(
    milestone: Milestone, minutes: int
) -> None:
    deadline = SINCE + minutes * MINUTE
    parked = at_the_edge(milestone, deadline, SILENT, probed(milestone, minutes))
    assert (parked.kind, parked.then.parked_at_ms) == ("park", deadline)
    salvaged = at_the_edge(milestone, deadline + 5 * MINUTE, SILENT, parked.then)
    assert salvaged.kind == "salvage"
    replaced = at_the_edge(milestone, deadline + 5 * MINUTE, SILENT, salvaged.then)
    assert replaced.kind == "reassign"
    assert step(milestone, NEVER, SILENT, replaced.then).kind == "none"


@pytest.mark.parametrize(
    ("ago_ms", "kind"), [(0, "extend"), (300_000, "extend"), (300_001, "park")]
)
@pytest.mark.parametrize("by_commit", [True, False])
def test_a_worker_that_was_active_in_the_last_five_minutes_gets_more_time(
    ago_ms: int, kind: str, by_commit: bool
) -> None:
    deadline = SINCE + 20 * MINUTE
    seen = deadline - ago_ms
    activity = (
        Activity(SINCE, last_commit_ms=seen) if by_commit else Activity(last_activity_ms=seen)
    )
    due = step("WORKING", deadline, activity, probed())
    assert due.kind == kind
    if kind == "extend":
        again = at_the_edge("WORKING", deadline + 5 * MINUTE, activity, due.then)
        assert again.kind == "probe"


def test_a_parked_worker_that_becomes_active_continues() -> None:
    parked_at = SINCE + 20 * MINUTE
    parked = replace(probed(), parked_at_ms=parked_at)
    assert step("WORKING", parked_at + 1, SILENT, parked).kind == "none"
    back = step("WORKING", parked_at + 2, Activity(parked_at + 1), parked)
    assert back.kind == "extend"
    assert back.then.parked_at_ms is None
    late = step("WORKING", parked_at + 9 * MINUTE, Activity(parked_at + 1), parked)
    assert late.kind == "extend"


def test_a_worker_still_active_after_thirty_minutes_is_reported_once() -> None:
    done = LadderState(
        warned=True,
        extended_until_ms=SINCE + 30 * MINUTE,
        probed_for_ms=SINCE + 30 * MINUTE,
    )
    now = SINCE + 30 * MINUTE
    active = Activity(last_activity_ms=now)
    due = step("WORKING", now, active, done)
    assert due.kind == "escalate"
    assert "more than 30 m" in due.message
    assert step("WORKING", now, active, due.then).kind == "extend"
    younger = replace(active, worker_since_ms=SINCE + 1)
    assert step("WORKING", now, younger, done).kind == "extend"
    assert step("WORKING", now + 1, younger, done).kind == "escalate"


@pytest.mark.parametrize(
    ("ci_state", "kind", "words"),
    [
        ("running", "extend", "still running"),
        ("none", "escalate", "no CI run"),
        ("passed", "check_ci", "has finished"),
        ("failed", "check_ci", "has finished"),
    ],
)
def test_ci_is_checked_before_anything_is_done_about_it(
    ci_state: CiActivity, kind: str, words: str
) -> None:
    deadline = SINCE + 15 * MINUTE
    activity = Activity(SINCE, ci_state=ci_state)
    asked = at_the_edge("PUSHED_TO_CI", deadline, activity, LadderState(warned=True))
    assert asked.kind == "check_ci"
    due = at_the_edge("PUSHED_TO_CI", deadline, activity, asked.then)
    assert due.kind == kind
    assert words in due.message
    again = at_the_edge("PUSHED_TO_CI", deadline + 15 * MINUTE, activity, due.then)
    assert again.kind == "check_ci"


CI_DEADLINE = SINCE + 15 * MINUTE
STUCK = Activity(SINCE, ci_state="stuck")


def checked(activity: Activity, done: LadderState, at_ms: int = CI_DEADLINE) -> LadderStep:
    """The step that is due after CI was checked."""
    asked = at_the_edge("PUSHED_TO_CI", at_ms, activity, done)
    assert asked.kind == "check_ci"
    return at_the_edge("PUSHED_TO_CI", at_ms, activity, asked.then)


def test_a_stuck_ci_is_restarted_once_and_gets_a_new_deadline() -> None:
    asked = checked(STUCK, LadderState(warned=True))
    assert (asked.kind, asked.message) == ("restart_ci", "CI is stuck: restart it, then wait")
    assert (asked.then.ci_restart, asked.then.ci_restarted_at_ms) == ("asked", CI_DEADLINE)
    waits = at_the_edge("PUSHED_TO_CI", CI_DEADLINE, STUCK, asked.then)
    assert (waits.kind, waits.then.ci_restart) == ("extend", "done")
    due = checked(STUCK, waits.then, CI_DEADLINE + 15 * MINUTE)
    assert due.kind == "escalate"
    assert due.message == "CI is stuck, even after a restart"
    again = checked(STUCK, due.then, CI_DEADLINE + 30 * MINUTE)
    assert again.kind == "extend"


def test_a_ci_that_cannot_be_restarted_is_reported_immediately() -> None:
    asked = checked(STUCK, LadderState(warned=True))
    refused = replace(asked.then, ci_restart="refused", ci_restarted_at_ms=None)
    due = at_the_edge("PUSHED_TO_CI", CI_DEADLINE, STUCK, refused)
    assert due.kind == "escalate"
    assert "restart it by hand" in due.message
    assert due.then.extended_until_ms == CI_DEADLINE + 15 * MINUTE


def test_a_run_without_progress_for_a_whole_period_is_restarted() -> None:
    """A run gets more time whenever it makes progress."""
    done, now = LadderState(warned=True), CI_DEADLINE
    for mark in ("1", "2", "3"):
        due = checked(Activity(SINCE, ci_state="running", ci_mark=mark), done, now)
        assert (due.kind, due.then.ci_mark) == ("extend", mark)
        done, now = due.then, now + 15 * MINUTE
    still = Activity(SINCE, ci_state="running", ci_mark="3")
    due = checked(still, done, now)
    assert due.kind == "restart_ci"
    assert "its run makes no progress" in due.message
    waits = at_the_edge("PUSHED_TO_CI", now, still, due.then)
    assert waits.kind == "extend"
    # It hangs again: the check in between found no progress.
    told = checked(still, waits.then, now + 15 * MINUTE)
    assert (told.kind, told.then.told_of_ci) == ("escalate", "hanging")


def test_a_run_that_could_not_be_checked_does_not_count_as_hanging() -> None:
    unseen = Activity(SINCE, ci_state="running", ci_mark=None)
    done, now = LadderState(warned=True), CI_DEADLINE
    for _ in range(5):
        due = checked(unseen, done, now)
        assert due.kind == "extend"
        done, now = due.then, now + 15 * MINUTE


@pytest.mark.parametrize(("first", "then"), [("none", "stuck"), ("stuck", "none")])
def test_each_problem_with_ci_is_reported_once(first: CiActivity, then: CiActivity) -> None:
    done, now, told = LadderState(warned=True, ci_restart="done"), CI_DEADLINE, []
    for state in (first, first, first, then, then):
        due = checked(Activity(SINCE, ci_state=state), done, now)
        told.append(due.kind)
        done, now = due.then, now + 15 * MINUTE
    assert told == ["escalate", "extend", "extend", "escalate", "extend"]


@given(st.sampled_from(["none", "running", "stuck", "passed", "failed"]), st.integers(0, 1000))
def test_time_spent_in_ci_is_never_held_against_the_worker(
    ci_state: CiActivity, minutes: int
) -> None:
    done, activity = LadderState(), Activity(SINCE, ci_state=ci_state)
    for _ in range(100):
        due = step("PUSHED_TO_CI", SINCE + minutes * MINUTE, activity, done)
        assert due.kind in ("none", "warn", "check_ci", "restart_ci", "extend", "escalate")
        done = due.then


def test_time_spent_in_verification_is_not_counted() -> None:
    held = replace(SILENT, held_ms=7 * MINUTE)
    assert at_the_edge("WORKING", SINCE + 22 * MINUTE, held, LadderState()).kind == "warn"
    now_held = replace(SILENT, server_holds=True)
    assert step("WORKING", NEVER, now_held).kind == "none"


@pytest.mark.parametrize(("attempts", "kind"), [(1, "park"), (4, "park"), (5, "escalate")])
def test_the_last_attempt_to_fix_ci_is_escalated_to_the_orchestrator(
    attempts: int, kind: str
) -> None:
    activity = replace(SILENT, attempts=attempts)
    deadline = SINCE + 15 * MINUTE
    due = at_the_edge("FIXING_CI", deadline, activity, probed("FIXING_CI", 15))
    assert due.kind == kind
    assert due.then.ended is (kind == "escalate")


def test_a_sixth_attempt_is_reported_immediately() -> None:
    due = at_the_edge("FIXING_CI", SINCE, replace(SILENT, attempts=6), LadderState())
    assert (due.kind, due.message) == ("escalate", "5 attempts to fix CI have failed")
    assert step("WORKING", SINCE, replace(SILENT, attempts=6)).kind == "none"


def test_a_blocked_worker_is_escalated_too() -> None:
    due = at_the_edge("BLOCKED", SINCE + 30 * MINUTE, SILENT, LadderState())
    assert due.kind == "escalate"
    assert step("BLOCKED", NEVER, SILENT, due.then).kind == "none"


def test_done_has_no_timeouts() -> None:
    assert step("DONE", NEVER).kind == "none"


def test_a_server_that_was_down_for_a_day_takes_every_step_in_order() -> None:
    done, kinds = LadderState(), []
    while (due := step("WORKING", SINCE + 1440 * MINUTE, SILENT, done)).kind != "none":
        kinds.append(due.kind)
        done = due.then
        if due.kind == "park":
            assert done.parked_at_ms == SINCE + 1440 * MINUTE
            break
    assert kinds == ["warn", "probe", "park"]


DEADLOCK = Deadlock()


def found(signs: StallSigns, now_ms: int) -> list[str]:
    return [
        indicator.kind
        for indicator in stall_indicators(signs, now_ms, DEADLOCK, stuck_after_seconds=600)
    ]


@pytest.mark.parametrize("milestone", ["WORKING", "FIXING_CI"])
def test_a_worker_idle_for_over_ten_minutes_is_stalled(milestone: Milestone) -> None:
    signs = StallSigns(milestone, SINCE, last_activity_ms=SINCE)
    assert found(signs, SINCE + 10 * MINUTE - 1) == []
    assert found(signs, SINCE + 10 * MINUTE) == []
    assert found(signs, SINCE + 10 * MINUTE + 1) == ["worker_idle"]


@pytest.mark.parametrize("milestone", ["PUSHED_TO_CI", "BLOCKED", "DONE"])
def test_a_waiting_worker_may_be_idle(milestone: Milestone) -> None:
    assert found(StallSigns(milestone, SINCE, SINCE), SINCE + 1000 * MINUTE) == []


def test_no_commits_for_over_fifteen_minutes_is_a_stall() -> None:
    edge = SINCE + 15 * MINUTE
    signs = StallSigns("WORKING", SINCE, last_activity_ms=edge)
    assert [found(signs, now) for now in (edge - 1, edge)] == [[], []]
    assert found(signs, edge + 1) == ["no_commits"]
    assert found(signs._replace(last_commit_ms=SINCE - 1), edge + 1) == ["no_commits"]
    assert found(signs._replace(last_commit_ms=SINCE), edge + 1) == []
    assert found(signs._replace(milestone="FIXING_CI"), edge + 1) == []


def test_ci_stuck_in_pending_is_a_stall() -> None:
    signs = StallSigns("PUSHED_TO_CI", SINCE, SINCE, ci_waiting_since_ms=SINCE)
    edge = SINCE + 10 * MINUTE
    assert [found(signs, now) for now in (edge - 1, edge)] == [[], []]
    assert found(signs, edge + 1) == ["ci_stuck_in_pending"]
    assert found(signs._replace(ci_waiting_since_ms=None), edge + 1) == []


def test_more_than_three_consecutive_api_errors_are_a_stall() -> None:
    signs = StallSigns("WORKING", SINCE, SINCE)
    assert found(signs._replace(api_errors=3), SINCE) == []
    assert found(signs._replace(api_errors=4), SINCE) == ["api_errors"]
