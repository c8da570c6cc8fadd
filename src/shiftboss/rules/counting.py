"""Numbers in sentences."""

from __future__ import annotations


def how_many(count: int, thing: str) -> str:
    """`1 repo`, `2 repos`."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def how_long(seconds: int) -> str:
    """`45 seconds`, `1 minute`, `11 minutes`: rounded down."""
    return how_many(seconds, "second") if seconds < 60 else how_many(seconds // 60, "minute")
