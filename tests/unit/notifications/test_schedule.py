"""When notifications are sent."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from shiftboss.protocol.notifications.settings import QuietTime
from shiftboss.rules.notifications.schedule import (
    ATTEMPTS_MAX,
    PAUSE_SECONDS_MAX,
    Rate,
    end_of_quiet_ms,
    pause_ms,
)

pytestmark = pytest.mark.requirement("OWN-20")

BERLIN = ZoneInfo("Europe/Berlin")
NIGHT = QuietTime(start=22 * 60, end=7 * 60, zone="Europe/Berlin")


def ms(text: str, zone: ZoneInfo = BERLIN) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp() * 1000)


@pytest.mark.parametrize(
    ("at", "sent_at"),
    [
        ("2026-11-18 21:59:59", "2026-11-18 21:59:59"),
        ("2026-11-18 22:00:00", "2026-11-19 07:00:00"),
        ("2026-11-18 23:30:00", "2026-11-19 07:00:00"),
        ("2026-11-19 00:00:00", "2026-11-19 07:00:00"),
        ("2026-11-19 06:59:59", "2026-11-19 07:00:00"),
        ("2026-11-19 07:00:00", "2026-11-19 07:00:00"),
        ("2026-11-19 12:00:00", "2026-11-19 12:00:00"),
    ],
)
def test_what_falls_into_the_quiet_time_waits_for_its_end(at: str, sent_at: str) -> None:
    assert end_of_quiet_ms(NIGHT, "question", ms(at)) == ms(sent_at)


@pytest.mark.parametrize(
    ("at", "sent_at", "hours"),
    [
        ("2026-03-28 23:00:00", "2026-03-29 07:00:00", 7),  # clocks are set forward at 2
        ("2026-10-24 23:00:00", "2026-10-25 07:00:00", 9),  # and back at 3
    ],
)
def test_the_end_of_the_quiet_time_is_by_the_clock_on_the_wall(
    at: str, sent_at: str, hours: int
) -> None:
    assert end_of_quiet_ms(NIGHT, "question", ms(at)) == ms(sent_at)
    assert ms(sent_at) - ms(at) == hours * 3_600_000


def test_a_quiet_time_within_a_day() -> None:
    noon = QuietTime(start=12 * 60, end=13 * 60 + 30, zone="Asia/Tokyo")
    tokyo = ZoneInfo("Asia/Tokyo")
    inside, end = ms("2026-11-18 12:10:00", tokyo), ms("2026-11-18 13:30:00", tokyo)
    assert end_of_quiet_ms(noon, "question", inside) == end
    assert end_of_quiet_ms(noon, "question", end) == end
    assert end_of_quiet_ms(noon, "question", inside - 3_600_000) == inside - 3_600_000


def test_urgent_kinds_pass_and_without_a_quiet_time_everything_does() -> None:
    at = ms("2026-11-18 23:00:00")
    assert end_of_quiet_ms(NIGHT, "halt", at) == at
    assert end_of_quiet_ms(None, "question", at) == at
    never = NIGHT.model_copy(update={"end": NIGHT.start})
    assert end_of_quiet_ms(never, "question", at) == at


def test_the_pauses_double_up_to_an_hour_with_jitter() -> None:
    assert [pause_ms(attempts, 0.0) for attempts in (1, 2, 3)] == [5000, 10_000, 20_000]
    assert pause_ms(1, 1.0) == 2500
    assert pause_ms(ATTEMPTS_MAX, 0.0) == PAUSE_SECONDS_MAX * 1000
    assert sum(pause_ms(attempts, 0.0) for attempts in range(1, ATTEMPTS_MAX)) > 2 * 3_600_000


def test_the_receiver_may_ask_for_a_longer_pause_but_not_for_a_day() -> None:
    assert pause_ms(1, 0.0, asked_seconds=120) == 120_000
    assert pause_ms(1, 0.0, asked_seconds=1) == 5000
    assert pause_ms(1, 0.0, asked_seconds=86_400) == PAUSE_SECONDS_MAX * 1000


def test_the_rate_allows_so_many_messages_in_a_minute() -> None:
    rate = Rate(2)
    assert rate.free_at_ms() == 0
    rate.add(1000)
    assert rate.free_at_ms() == 0
    rate.add(5000)
    assert rate.free_at_ms() == 61_000
    rate.add(61_000)
    assert rate.free_at_ms() == 65_000
