"""Rate limits of clients, under a clock that the test sets."""

from __future__ import annotations

import logging

import pytest

from shiftboss.errors import TooManyRequests
from shiftboss.server.http import rate_limits
from shiftboss.server.http.rate_limits import BURST_SECONDS, REFUSALS_PER_SECOND, RateLimits

pytestmark = pytest.mark.requirement("SW-12")

CLIENT = "10.0.0.1"


class FakeClock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def admitted(limits: RateLimits, client: str, attempts: int) -> int:
    return sum(limits.of(client).admits() for _ in range(attempts))


def test_a_client_gets_its_burst_and_then_its_rate(clock: FakeClock) -> None:
    limits = RateLimits(10, clock)
    assert admitted(limits, CLIENT, 100) == 10 * BURST_SECONDS
    clock.now += 1.0
    assert admitted(limits, CLIENT, 100) == 10
    clock.now += 3600.0
    assert admitted(limits, CLIENT, 100) == 10 * BURST_SECONDS


def test_a_refusal_says_when_to_come_back(clock: FakeClock) -> None:
    limits = RateLimits(0.5, clock)
    assert admitted(limits, CLIENT, 10) == 2
    with pytest.raises(TooManyRequests) as refused:
        limits.of(CLIENT).check()
    assert refused.value.retry_after_seconds == 2.0
    assert "in 2 s" in (refused.value.hint or "")
    clock.now += 2.0
    limits.of(CLIENT).check()


def test_a_clock_that_does_not_move_gives_nothing_for_free(clock: FakeClock) -> None:
    limits = RateLimits(1, clock)
    assert admitted(limits, CLIENT, 1000) == BURST_SECONDS


def test_clients_do_not_share_a_limit(clock: FakeClock) -> None:
    limits = RateLimits(1, clock)
    assert admitted(limits, CLIENT, 100) == BURST_SECONDS
    assert admitted(limits, "10.0.0.2", 1) == 1


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("127.0.0.1", "127.1.2.3", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("::1", "::1", True),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.2", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.3", False),
    ],
)
def test_an_ipv6_client_is_its_network(
    clock: FakeClock, one: str, other: str, is_same: bool
) -> None:
    limits = RateLimits(1, clock)
    assert (limits.of(one) is limits.of(other)) is is_same


def test_refused_requests_have_a_limit_of_their_own(clock: FakeClock) -> None:
    limits = RateLimits(5000, clock)
    rate = limits.of(CLIENT)
    for _ in range(int(REFUSALS_PER_SECOND * BURST_SECONDS)):
        rate.check_refusal()
    with pytest.raises(TooManyRequests, match="too many refused requests"):
        rate.check_refusal()
    rate.check()


def test_no_limit_means_none(clock: FakeClock) -> None:
    assert admitted(RateLimits(0, clock), CLIENT, 50_000) == 50_000


def test_a_swarm_of_a_thousand_workers_on_one_machine_stays_below_the_default(
    clock: FakeClock,
) -> None:
    """All register, poll and acknowledge at once; then each sends two requests per second."""
    limits = RateLimits(clock=clock)
    assert admitted(limits, CLIENT, 3000) == 3000
    for _ in range(60):
        clock.now += 1.0
        assert admitted(limits, CLIENT, 2000) == 2000


def test_many_addresses_do_not_fill_the_memory(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rate_limits, "CLIENTS_MAX", 10)
    limits = RateLimits(1, clock)
    assert admitted(limits, CLIENT, 100) == BURST_SECONDS
    for number in range(9):
        limits.of(f"10.1.0.{number}")
    limits.of("10.2.0.1")
    # Those that have used nothing are forgotten, the busy one is not.
    assert len(limits._clients) == 2
    assert admitted(limits, CLIENT, 1) == 0
    for number in range(1000):
        limits.of(f"10.3.{number // 250}.{number % 250}").admits()
        assert len(limits._clients) <= 10


def test_one_line_per_client_is_logged(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    limits = RateLimits(1, clock)
    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            try:
                limits.of(CLIENT).check()
            except TooManyRequests:
                clock.now += 0.001
    assert [record.getMessage() for record in caplog.records] == [
        "too many requests from 10.0.0.1: they are answered with 429"
    ]
