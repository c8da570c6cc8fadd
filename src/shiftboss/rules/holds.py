"""Of two reasons not to hand anything out, which one counts."""

from __future__ import annotations

from shiftboss.rules.running import Hold


def longer(known: Hold | None, wanted: Hold) -> Hold:
    """The one that ends later; one without an end is somebody's word, and lasts until it is taken
    back. It began when the first did."""
    if known is None:
        return wanted
    if known.until_ms is None:
        return known
    if wanted.until_ms is None or wanted.until_ms > known.until_ms:
        return wanted._replace(since_ms=known.since_ms)
    return known
