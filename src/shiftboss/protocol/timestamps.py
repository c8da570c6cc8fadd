"""Times on the wire. Inside, a time is a whole number of milliseconds since 1970 in UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache


@lru_cache(maxsize=256)
def _from_seconds(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def wire_time(at_ms: int) -> str:
    """`2026-01-05T10:00:00Z`. Cached by the second: one answer in thousands makes a new string."""
    return _from_seconds(at_ms // 1000)


def optional_wire_time(at_ms: int | None) -> str | None:
    return None if at_ms is None else wire_time(at_ms)


def checkpoint_time(now: datetime) -> str:
    """`2026-01-05T10:00:00.123456+00:00`, always with an offset and always UTC."""
    return now.astimezone(UTC).isoformat()
