"""What the end of an attempt says about the strategy that made its task."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Literal

from shiftboss.protocol.verdicts import CheckName
from shiftboss.rules.failures import RECOVERABLE_ERRORS

SignalKind = Literal["completion", "refusal", "failure"]
Impact = Literal["positive", "negative", "neutral"]

# A completion is worth one win. Each refusal and each retry on the way takes something off, and so
# does an attempt that took long: the task was cut too big or too vague. It stays a win.
REFUSAL_COST: Final = 0.25
RETRY_COST: Final = 0.15
LONG_COST: Final = 0.25
LONG_MS: Final = 2 * 3_600_000
WIN_MIN: Final = 0.1


def impact_of(
    kind: SignalKind, *, violated: Collection[CheckName] = (), error_type: str | None = None
) -> Impact:
    """Work outside the scope speaks against the cut; a failing test speaks of the worker, and a
    flaky network of neither."""
    if kind == "completion":
        return "positive"
    if kind == "refusal":
        return "negative" if "scope" in violated else "neutral"
    return "neutral" if error_type in RECOVERABLE_ERRORS else "negative"


def signal_weight(
    impact: Impact, *, refusals: int = 0, retries: int = 0, duration_ms: int = 0
) -> float:
    """A loss is a whole one. A win has its price."""
    if impact == "neutral":
        return 0.0
    if impact == "negative":
        return 1.0
    cost = REFUSAL_COST * refusals + RETRY_COST * retries
    if duration_ms > LONG_MS:
        cost += LONG_COST
    return max(WIN_MIN, 1.0 - cost)
