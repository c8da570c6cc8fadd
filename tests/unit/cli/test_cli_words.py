"""Times and events as text."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from shiftboss.cli.common.event_stream import StreamEvent
from shiftboss.cli.common.times import ago, ago_ms, span, until
from shiftboss.cli.views.events import _SENTENCES, BUS_SENTENCES, sentence
from shiftboss.protocol.events import EventKind


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0s"),
        (0, "0s"),
        (59.9, "59s"),
        (60, "1m"),
        (3599, "59m"),
        (3600, "1h"),
        (86_399, "23h"),
        (86_400, "1d"),
        (10 * 86_400, "10d"),
    ],
)
def test_a_duration_is_rounded_down_to_its_largest_unit(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_a_time_is_shown_relative_to_now() -> None:
    now = datetime(2026, 1, 5, 10, 1, tzinfo=UTC)
    assert ago("2026-01-05T10:00:30Z", now) == "30s ago"
    assert until("2026-01-05T10:03:30Z", now) == "2m"
    assert ago_ms(int(now.timestamp() * 1000) - 30_500, now) == "30s ago"


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        (
            "retry_due",
            {"packet_id": 1, "task_id": "task-2", "attempt": 1},
            "packet 1: retry 1 of task-2 is due",
        ),
        (
            "worker_registered",
            {"packet_id": 1, "packet_name": "docs", "tasks_total": 3, "attempt": 2},
            "packet 1: docs registered, 3 tasks, attempt 2",
        ),
        (
            "worker_complete",
            {"packet_id": 1, "final_commit": "0123456789abcdef", "remaining_workers": 1},
            "packet 1: complete, commit 0123456789, 1 worker to go",
        ),
        (
            "question_asked",
            {"worker": "z.ai1", "bead_id": "task-1", "contact": "dba", "question": "Which\none?"},
            "z.ai1 asks dba about task-1: Which\\none?",
        ),
        ("task_done", {"bead_id": "{worker}"}, "{worker} done by ?"),
        (
            "agent_run_ended",
            {"process": 1, "agent": "codex", "bead_id": "t", "ended": "ended"},
            "process 1 of codex on t ended",
        ),
        (
            "agent_run_ended",
            {"process": 2, "agent": "codex", "bead_id": "t", "ended": "timeout"},
            "process 2 of codex on t ended: timeout",
        ),
        ("of_tomorrow", {"text": "a\nb"}, '{"text": "a\\nb"}'),
    ],
)
def test_an_event_is_shown_as_a_sentence_and_an_unknown_kind_as_its_data(
    kind: str, data: dict[str, object], text: str
) -> None:
    assert sentence(StreamEvent(7, kind, data)) == text


def test_every_kind_of_event_has_a_sentence() -> None:
    assert set(EventKind) == set(_SENTENCES) | set(BUS_SENTENCES)
