"""Strategies for splitting a goal into tasks: the record of each, and the choice between them.

The record of a strategy is a sum of wins and a sum of losses. Both are halved every 90 days,
because a project and its workers change. The choice is Thompson sampling: each strategy draws a
number from Beta(wins + 1, losses + 1), and the highest wins. So a strategy is chosen as often as it
is likely to be the best, and one with a bad record still gets a chance now and then.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal

from shiftboss.protocol.claims.verdicts import CheckName
from shiftboss.rules.tasks.retry import RECOVERABLE_ERRORS

SignalKind = Literal["completion", "refusal", "failure", "dispute"]
Impact = Literal["positive", "negative", "neutral"]

# A completion counts as one win. Each refusal, each retry and a long duration reduce it, because
# the task was too big or too vague. It always stays a win.
REFUSAL_COST: Final = 0.25
RETRY_COST: Final = 0.15
LONG_COST: Final = 0.25
LONG_MS: Final = 2 * 3_600_000
WIN_MIN: Final = 0.1


def impact_of(
    kind: SignalKind, *, violated: Collection[CheckName] = (), error_type: str | None = None
) -> Impact:
    """Work outside the scope counts against the strategy. A failing test is the worker's fault, and
    a flaky network is nobody's. A dispute is never held against anybody."""
    if kind == "completion":
        return "positive"
    if kind == "dispute":
        return "neutral"
    if kind == "refusal":
        return "negative" if "scope" in violated else "neutral"
    return "neutral" if error_type in RECOVERABLE_ERRORS else "negative"


def signal_weight(
    impact: Impact, *, refusals: int = 0, retries: int = 0, duration_ms: int = 0
) -> float:
    """A loss always counts fully. A win is reduced by its costs."""
    if impact == "neutral":
        return 0.0
    if impact == "negative":
        return 1.0
    cost = REFUSAL_COST * refusals + RETRY_COST * retries
    if duration_ms > LONG_MS:
        cost += LONG_COST
    return max(WIN_MIN, 1.0 - cost)


KNOWN_STRATEGIES: Final = ("file-based", "feature-based", "risk-based", "research-based")
HALF_LIFE_MS: Final = 90 * 86_400_000
SAMPLES_MIN: Final = 3
# Two full losses without a win are below this mean, one is not.
BAD_MEAN: Final = 0.3
# About 90 % of values lie within this many standard deviations of the mean.
_DEVIATIONS: Final = 1.645


@dataclass(frozen=True, slots=True)
class StrategyRecord:
    """`wins` and `losses` are as of `updated_at_ms`; `samples` counts every outcome. `disputes`
    are contracts that a worker disputed."""

    strategy: str
    wins: float = 0.0
    losses: float = 0.0
    samples: int = 0
    updated_at_ms: int = 0
    disputes: int = 0


@dataclass(frozen=True, slots=True)
class StrategyRow:
    """The input of the choice: decayed sums, the mean chance of a win with its 90 % interval, and
    the number that the strategy drew."""

    strategy: str
    samples: int
    wins: float
    losses: float
    mean: float
    low: float
    high: float
    drawn: float
    disputes: int


@dataclass(frozen=True, slots=True)
class Suggestion:
    strategy: str
    reason: str
    table: tuple[StrategyRow, ...]


def decayed(record: StrategyRecord, now_ms: int) -> StrategyRecord:
    """The record as of now. A clock that went backwards changes nothing."""
    age_ms = now_ms - record.updated_at_ms
    if age_ms <= 0:
        return record
    factor = 0.5 ** (age_ms / HALF_LIFE_MS)
    return replace(
        record,
        wins=record.wins * factor,
        losses=record.losses * factor,
        updated_at_ms=now_ms,
    )


def recorded(record: StrategyRecord, impact: Impact, weight: float, now_ms: int) -> StrategyRecord:
    """The record with one more signal. A neutral signal only counts as a sample."""
    current = decayed(record, now_ms)
    return replace(
        current,
        wins=current.wins + (weight if impact == "positive" else 0.0),
        losses=current.losses + (weight if impact == "negative" else 0.0),
        samples=current.samples + 1,
    )


def disputed(record: StrategyRecord) -> StrategyRecord:
    """The record with one more dispute, which is no outcome: its score and samples stay."""
    return replace(record, disputes=record.disputes + 1)


def suggest(
    records: Iterable[StrategyRecord],
    now_ms: int,
    *,
    seed: int | None,
    samples_min: int = SAMPLES_MIN,
) -> Suggestion:
    """Choose between all strategies, including known ones without a record. The same seed and
    records give the same choice."""
    chance = random.Random(seed)  # noqa: S311 - not a secret
    known = {name: StrategyRecord(name) for name in KNOWN_STRATEGIES}
    all_records = known | {record.strategy: record for record in records}
    table = tuple(_row(decayed(all_records[name], now_ms), chance) for name in sorted(all_records))
    untried = [row for row in table if row.samples < samples_min and row.mean >= BAD_MEAN]
    if untried:
        chosen = min(untried, key=lambda row: (row.samples, -row.drawn))
        reason = f"{chosen.strategy} has {chosen.samples} of {samples_min} samples: tried first"
    else:
        chosen = max(table, key=lambda row: row.drawn)
        reason = (
            f"{chosen.strategy} drew {chosen.drawn:.2f}, the highest; its record is "
            f"{chosen.wins:.1f} wins to {chosen.losses:.1f} losses"
        )
    return Suggestion(chosen.strategy, reason, table)


def _row(record: StrategyRecord, chance: random.Random) -> StrategyRow:
    alpha, beta = record.wins + 1.0, record.losses + 1.0
    total = alpha + beta
    mean = alpha / total
    spread = _DEVIATIONS * math.sqrt(alpha * beta / (total * total * (total + 1.0)))
    return StrategyRow(
        strategy=record.strategy,
        samples=record.samples,
        wins=record.wins,
        losses=record.losses,
        mean=mean,
        low=max(0.0, mean - spread),
        high=min(1.0, mean + spread),
        drawn=chance.betavariate(alpha, beta),
        disputes=record.disputes,
    )
