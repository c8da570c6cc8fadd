"""The clock of a server: a wall clock that is set moves it slowly, and never back."""

from __future__ import annotations

import ast
import logging
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

import shiftboss
from shiftboss.coordinator.clock import ServerClock
from shiftboss.coordinator.duties.suspend_detection import (
    LATE_SECONDS,
    TICK_SECONDS,
    SuspendDetector,
)

START_MS = 1_800_000_000_000
HOUR_MS = 3_600_000
NS = 1_000_000


class Machine:
    """A machine whose wall clock can be set."""

    def __init__(self) -> None:
        self.wall_ms = START_MS
        self.elapsed_ms = 5_000
        self.clock = ServerClock(lambda: self.wall_ms * NS, lambda: self.elapsed_ms * NS)

    def passes(self, ms: int) -> int:
        """Time passes, in one piece; the time of the server afterwards."""
        self.wall_ms += ms
        self.elapsed_ms += ms
        return self.clock()

    def sets_clock(self, ms: int) -> None:
        self.wall_ms += ms


def test_it_is_the_wall_clock_while_nobody_sets_that() -> None:
    machine = Machine()
    assert machine.clock() == START_MS
    for ms in (1, 999, 1, 1000, 5000, HOUR_MS, 30):
        assert machine.passes(ms) == machine.wall_ms


@pytest.mark.parametrize("jump_ms", [-HOUR_MS, HOUR_MS, -30_000, 30_000, -86_400_000, 86_400_000])
def test_half_an_hour_takes_half_an_hour_when_the_wall_clock_is_set(jump_ms: int) -> None:
    machine = Machine()
    began_ms = machine.passes(10)
    machine.sets_clock(jump_ms)
    assert machine.clock() == began_ms
    for _ in range(1800):
        ended_ms = machine.passes(1000)
    assert abs(ended_ms - began_ms - 1_800_000) <= 1800


@pytest.mark.parametrize("jump_ms", [-3000, 3000])
def test_it_approaches_the_wall_clock_by_a_thousandth_and_then_keeps_to_it(jump_ms: int) -> None:
    machine = Machine()
    machine.sets_clock(jump_ms)
    machine.passes(1000)
    machine.passes(1_000_000)
    assert abs(machine.clock() - machine.wall_ms) == 2000
    # An hour without a request corrects no more than what is left.
    machine.passes(HOUR_MS)
    assert abs(machine.clock() - machine.wall_ms) <= 1


steps = st.lists(
    st.tuples(st.integers(0, 5_000), st.sampled_from([0, 0, 0, -HOUR_MS, HOUR_MS, -7, 7])),
    max_size=50,
)


@given(steps)
def test_it_never_goes_back_and_runs_at_the_speed_of_time(steps: list[tuple[int, int]]) -> None:
    machine = Machine()
    before = machine.clock()
    for passed_ms, jump_ms in steps:
        machine.sets_clock(jump_ms)
        now = machine.passes(passed_ms)
        assert before <= now
        # Within a second it goes by the comparison before.
        assert abs(now - before - passed_ms) <= passed_ms // 1000 + 2
        before = now


@given(st.integers(-2 * NS, 2 * NS))
def test_a_difference_of_less_than_a_millisecond_does_not_set_it_back(ahead_ns: int) -> None:
    start_ns = START_MS * NS + NS // 2
    second_ns = 1000 * NS
    elapsed = iter([0, second_ns, 2 * second_ns - 10_000, 2 * second_ns])
    clock = ServerClock(
        iter([start_ns, *[start_ns + second_ns - ahead_ns] * 3]).__next__, elapsed.__next__
    )
    times = [clock() for _ in range(3)]
    assert times == sorted(times)


@pytest.mark.parametrize("ahead_ms", [5_000, HOUR_MS])
def test_a_restart_after_the_clock_was_set_back_goes_on_from_the_latest_stored_time(
    ahead_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    machine = Machine()
    machine.clock.continue_after(START_MS + ahead_ms)
    assert machine.clock() == START_MS + ahead_ms
    assert machine.passes(900) == START_MS + ahead_ms + 899
    assert bool(caplog.records) is (ahead_ms == HOUR_MS)


def test_earlier_stored_times_change_nothing() -> None:
    machine = Machine()
    machine.clock.continue_after(START_MS - 1)
    assert machine.clock() == START_MS


def test_a_wall_clock_that_was_set_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    machine = Machine()
    machine.sets_clock(HOUR_MS)
    for _ in range(10):
        machine.passes(2000)
    (record,) = caplog.records
    assert "3600 s behind" in record.getMessage()


# -- the server itself stands still


class Ticking:
    def __init__(self) -> None:
        self.now = 100.0
        self.watch = SuspendDetector(lambda: self.now)

    def passes(self, seconds: float) -> None:
        while seconds > 0:
            self.now += min(seconds, TICK_SECONDS)
            self.watch.tick()
            seconds -= TICK_SECONDS


def test_a_server_that_runs_does_not_stand_still() -> None:
    ticking = Ticking()
    assert not ticking.watch.take(), "it does not tick yet"
    ticking.watch.tick()
    ticking.passes(3600)
    ticking.now += LATE_SECONDS
    ticking.watch.tick()
    assert not ticking.watch.take()


@pytest.mark.parametrize("ticks_first", [True, False])
def test_a_standstill_is_noticed_once_whoever_comes_first(*, ticks_first: bool) -> None:
    ticking = Ticking()
    ticking.watch.tick()
    ticking.now += 60
    if ticks_first:
        ticking.watch.tick()
    assert ticking.watch.take()
    assert not ticking.watch.take()
    ticking.watch.tick()
    ticking.passes(10)
    assert not ticking.watch.take()


# -- one seam

_SOURCE: Final = Path(shiftboss.__file__).parent
# The only place where a server reads the wall clock, and what a worker's own process says.
_ALLOWED: Final = {"coordinator/clock.py", "rules/tasks/worker_protocol.py"}
_WALL_CLOCKS: Final = {
    ("time", "time"),
    ("time", "time_ns"),
    ("datetime", "now"),
    ("date", "today"),
}


def test_a_server_reads_the_wall_clock_in_one_place() -> None:
    readers = {
        path.relative_to(_SOURCE).as_posix()
        for package in ("coordinator", "store", "server", "rules")
        for path in (_SOURCE / package).rglob("*.py")
        if _reads_wall_clock(ast.parse(path.read_text()))
    }
    assert readers == _ALLOWED


def _reads_wall_clock(tree: ast.AST) -> bool:
    return any(
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and (node.value.id, node.attr) in _WALL_CLOCKS
        for node in ast.walk(tree)
    )
