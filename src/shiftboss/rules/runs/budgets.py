"""What was used and what may be: sums, limits, and who may change them."""

from __future__ import annotations

from typing import NamedTuple

from shiftboss.rules.runs.records import WHOLE_SWARM, BudgetRecord, ProcessUsage, Totals

MICRO = 1_000_000


class ExceededLimit(NamedTuple):
    """A limit that is reached. `unit` is tokens or dollars; both numbers are in it."""

    unit: str
    limit: float
    spent: float

    def __str__(self) -> str:
        if self.unit == "tokens":
            return f"{self.spent:,.0f} of {self.limit:,.0f} tokens"
        return f"${self.spent:,.2f} of ${self.limit:,.2f}"


def microdollars(dollars: float) -> int:
    """Whole numbers add up to the same whatever the order."""
    return round(dollars * MICRO)


def dollar_limit(dollars: float | None) -> int | None:
    """A limit below a millionth is still one."""
    return None if dollars is None else max(microdollars(dollars), 1)


def is_late(known: ProcessUsage | None, said: ProcessUsage) -> bool:
    """A process only ever uses more: who says less was overtaken on the way."""
    return known is not None and said.tokens < known.tokens


def with_usage(totals: Totals, known: ProcessUsage | None, said: ProcessUsage) -> Totals:
    """The sums when `said` takes the place of what was known of the process."""
    added = _of(said)
    if known is not None:
        added = Totals._make(new - old for new, old in zip(added, _of(known), strict=True))
    return Totals._make(one + more for one, more in zip(totals, added, strict=True))


def _of(usage: ProcessUsage) -> Totals:
    return Totals(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        microdollars=usage.microdollars or 0,
        unpriced_tokens=usage.tokens if usage.microdollars is None else 0,
    )


def used_up(totals: Totals, budget: BudgetRecord | None) -> ExceededLimit | None:
    """The limit that is reached, if one is: nothing more may be spent."""
    if budget is None:
        return None
    if budget.tokens is not None and totals.tokens >= budget.tokens:
        return ExceededLimit("tokens", budget.tokens, totals.tokens)
    if budget.microdollars is not None and totals.microdollars >= budget.microdollars:
        return ExceededLimit("dollars", budget.microdollars / MICRO, totals.microdollars / MICRO)
    return None


def is_raise(known: BudgetRecord | None, wanted: BudgetRecord) -> bool:
    """Whether more may be spent than before. Where there was no limit, any is a smaller one."""
    if known is None:
        return False
    pairs = ((known.tokens, wanted.tokens), (known.microdollars, wanted.microdollars))
    return any(old is not None and (new is None or new > old) for old, new in pairs)


def why_held(task_id: str, over: ExceededLimit) -> str:
    whose = "the swarm" if task_id == WHOLE_SWARM else task_id
    return f"the budget of {whose} is used up: {over}"
