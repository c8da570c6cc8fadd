"""When a quota resets, according to the messages of all agents."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftboss.rules.runs.quota_messages import mentions_limit, reset_time

NOON = datetime(2026, 6, 5, 12, tzinfo=UTC).timestamp()
HOUR = 3600


@pytest.mark.parametrize(
    ("words", "hours"),
    [
        ("Claude AI usage limit reached|1780675200", 4),
        ("usage limit reached|1780675200000", 4),
        ("You've hit your limit · resets 10:15pm (UTC)", 10.25),
        ("You've hit your limit · resets 2am (Asia/Shanghai)", 6),
        ("5-hour limit reached ∙ resets 7pm", 7),
        ("5-hour limit reached ∙ resets 7am", 19),
        ("You've hit your weekly limit · resets Jun 9, 5pm (UTC)", 101),
        ("weekly limit reached, resets Jun 9 at 7:30pm (Europe/Berlin)", 101.5),
        ("You’ve hit your usage limit. Upgrade, or try again at 10:30 PM.", 10.5),
        ("You've hit your usage limit. Try again at Jun 6th, 2026 1:00 PM.", 25),
        ("hit your usage limit. or try again in 5 days 22 hours 30\nminutes.", 142.5),
        ("usage limit reached, try again in 3h 15m", 3.25),
        ("Quota exceeded. Please retry in 5400.0s.", 1.5),
        ('"RetryInfo","retryDelay":"1800s"', 0.5),
        ('{\\"retryDelay\\": \\"1800s\\"}', 0.5),
        ("exhausted your capacity. Your quota will reset after 12h30m0s.", 12.5),
        ("Weekly usage limit reached. It will reset in 2 hours and 30 minutes.", 2.5),
        ('429 {"retry-after": "3600"}', 1),
        ("Retry-After: Fri, 05 Jun 2026 14:00:00 GMT", 2),
        ('{"retry-after-ms": "1800000"}', 0.5),
        ('{"type":"usage_limit_reached","resets_at":1780675200}', 4),
        ('{"resets_in_seconds": 7200}', 2),
        ("The quota resets at 2026-06-05T13:30:00Z", 1.5),
    ],
)
def test_a_reset_time_is_recognised(words: str, hours: float) -> None:
    assert reset_time(words, NOON, UTC) == pytest.approx(NOON + hours * HOUR)


@pytest.mark.parametrize(
    "words",
    [
        "",
        "Rate limit exceeded, try again later",
        "usage limit reached|1000000000",
        "usage limit reached|9999999999",
        "resets Feb 31 at 5pm",
        "try again at 13:61 PM",
        "try again in 400 days",
    ],
)
def test_other_times_are_ignored(words: str) -> None:
    assert reset_time(words, NOON, UTC) is None


def test_an_unknown_zone_falls_back_to_the_local_one() -> None:
    assert reset_time("resets 2pm (Not/A_Zone)", NOON, UTC) == NOON + 2 * HOUR


@pytest.mark.parametrize(
    "words",
    [
        "You’ve hit your usage limit.",
        "API Error: Request rejected (429) · This request would exceed your account's rate limit.",
        "exceeded retry limit, last status: 429 Too Many Requests",
        "[API Error: You have exhausted your daily quota on this model.]",
        "TerminalQuotaError: x",
        "litellm.RateLimitError: x",
        "Your workspace is out of credits.",
        "You hit your spend cap set in your workspace.",
        "Credit balance is too low",
        "API Error: 529 overloaded_error",
        "RESOURCE_EXHAUSTED",
    ],
)
def test_a_limit_is_recognised_by_its_text(words: str) -> None:
    assert mentions_limit(words)


@pytest.mark.parametrize(
    "words",
    [
        "",
        "disk quota exceeded",
        "at file.ts:429:12",
        "Prompt is too long",
        "500 internal server error",
        "the connection was reset",
    ],
)
def test_other_failures_are_not_limits(words: str) -> None:
    assert not mentions_limit(words)


@given(st.text(alphabet="0123456789 :.|resetagiynhmdpw(/)-T\n", max_size=300))
def test_a_reset_time_is_always_in_the_future(words: str) -> None:
    found = reset_time(words, NOON, UTC)
    assert found is None or found > NOON


def test_a_long_text_is_read_quickly() -> None:
    """Every part of the text almost matches."""
    text = "resets at retry in 1 d 1 d try again in " * 100_000
    assert not mentions_limit(text)
    reset_time(text, NOON, UTC)
