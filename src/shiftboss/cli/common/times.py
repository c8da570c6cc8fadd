"""Times as people read them: `5m ago`, or the local time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "m"))


def now() -> datetime:
    return datetime.now(UTC)


def span(seconds: float) -> str:
    """`12s`, `5m`, `3h`, `4d`: rounded down, and at least `0s` if the local clock is behind."""
    for unit_seconds, unit in _UNITS:
        if seconds >= unit_seconds:
            return f"{int(seconds // unit_seconds)}{unit}"
    return f"{max(int(seconds), 0)}s"


def ago(wire_time: str, at: datetime) -> str:
    return f"{span((at - _parsed(wire_time)).total_seconds())} ago"


def ago_ms(at_ms: int, at: datetime) -> str:
    return f"{span(at.timestamp() - at_ms / 1000)} ago"


def local_time(wire_time: str) -> str:
    """`2026-01-05 11:00:30`, in the time zone of this machine."""
    return f"{_parsed(wire_time).astimezone():%Y-%m-%d %H:%M:%S}"


def until(wire_time: str, at: datetime) -> str:
    return span((_parsed(wire_time) - at).total_seconds())


def _parsed(wire_time: str) -> datetime:
    return datetime.fromisoformat(wire_time)
