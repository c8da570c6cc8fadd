"""A duty without success is noticed; one that has nothing to do is not."""

from __future__ import annotations

import pytest

from shiftboss.coordinator.duties.duty_record import STUCK_SECONDS, DutyRecord


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def record(time: Time) -> DutyRecord:
    return DutyRecord("Reaper", elapsed=time)


def fail(record: DutyRecord) -> None:
    with pytest.raises(RuntimeError), record.round():
        raise RuntimeError("no such row")


def test_a_duty_that_waits_for_work_is_not_stuck(record: DutyRecord, time: Time) -> None:
    with record.round():
        pass
    time.now = 10 * STUCK_SECONDS
    assert record.stuck_for_seconds is None
    assert record.seconds_since_success == time.now


def test_a_duty_that_hangs_in_a_round_is_stuck(record: DutyRecord, time: Time) -> None:
    stuck = []
    with record.round():
        for time.now in (STUCK_SECONDS, STUCK_SECONDS + 1):
            stuck.append(record.stuck_for_seconds)
    assert [*stuck, record.stuck_for_seconds] == [None, STUCK_SECONDS + 1, None]


def test_a_duty_whose_rounds_all_fail_is_stuck(record: DutyRecord, time: Time) -> None:
    fail(record)
    time.now = STUCK_SECONDS + 1
    fail(record)
    assert record.stuck_for_seconds == time.now
    assert (record.runs, record.failures, record.last_error) == (2, 2, "no such row")
    with record.round():
        pass
    assert record.stuck_for_seconds is None


def test_a_duty_that_another_server_runs_is_not_stuck(record: DutyRecord, time: Time) -> None:
    fail(record)
    record.stopped()
    time.now = 10 * STUCK_SECONDS
    assert (record.stuck_for_seconds, record.seconds_since_success) == (None, None)
