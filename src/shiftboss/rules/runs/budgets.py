"""Usage totals, budgets, and when a budget is exceeded."""

from __future__ import annotations

from typing import NamedTuple

from shiftboss.protocol.fields import INTEGER_MAX
from shiftboss.rules.runs.records import WHOLE_SWARM, BudgetRecord, ProcessUsage, Totals

MICRO = 1_000_000


class ExceededLimit(NamedTuple):
    """A limit that is reached. `unit` is tokens or dollars; `limit` and `spent` are in it."""

    unit: str
    limit: float
    spent: float

    def __str__(self) -> str:
        if self.unit == "tokens":
            return f"{self.spent:,.0f} of {self.limit:,.0f} tokens"
        return f"${self.spent:,.2f} of ${self.limit:,.2f}"


def microdollars(dollars: float) -> int:
    """Integers, because their sum does not depend on the order."""
    return round(dollars * MICRO)


def dollar_limit(dollars: float | None) -> int | None:
    """A limit below a microdollar is rounded up, so that it stays a limit."""
    return None if dollars is None else max(microdollars(dollars), 1)


def grown(recorded: ProcessUsage | None, reported: ProcessUsage) -> ProcessUsage:
    """What a process has used, after another report. Nothing that was spent is taken back: a lower
    figure was overtaken by another report, or it is a lie."""
    if recorded is None:
        return reported
    prices = (recorded.microdollars, reported.microdollars)
    return reported._replace(
        input_tokens=max(recorded.input_tokens, reported.input_tokens),
        output_tokens=max(recorded.output_tokens, reported.output_tokens),
        cached_tokens=max(recorded.cached_tokens, reported.cached_tokens),
        microdollars=max((price for price in prices if price is not None), default=None),
    )


def add_usage(totals: Totals, recorded: ProcessUsage | None, reported: ProcessUsage) -> Totals:
    """The totals after `reported` replaces what was recorded for the process. They stop at what a
    database can add up and clients can read: beyond that somebody lies, and others go on."""
    added = added_usage(recorded, reported)
    sums = (total + more for total, more in zip(totals, added, strict=True))
    return Totals._make(max(min(each, INTEGER_MAX), 0) for each in sums)


def added_usage(recorded: ProcessUsage | None, reported: ProcessUsage) -> Totals:
    """How much more `reported` is than what was recorded for the process."""
    added = _totals_of(reported)
    if recorded is None:
        return added
    previous = _totals_of(recorded)
    return Totals._make(new - old for new, old in zip(added, previous, strict=True))


def _totals_of(usage: ProcessUsage) -> Totals:
    return Totals(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        microdollars=usage.microdollars or 0,
        unpriced_tokens=usage.tokens if usage.microdollars is None else 0,
    )


def exceeded_limit(totals: Totals, budget: BudgetRecord | None) -> ExceededLimit | None:
    """The limit that is reached, or None if more may be spent."""
    if budget is None:
        return None
    if budget.tokens is not None and totals.tokens >= budget.tokens:
        return ExceededLimit("tokens", budget.tokens, totals.tokens)
    if budget.microdollars is not None and totals.microdollars >= budget.microdollars:
        return ExceededLimit("dollars", budget.microdollars / MICRO, totals.microdollars / MICRO)
    return None


def is_raise(current: BudgetRecord | None, wanted: BudgetRecord) -> bool:
    """Whether more could be spent than before. Without a budget, any budget is a reduction."""
    if current is None:
        return False
    pairs = ((current.tokens, wanted.tokens), (current.microdollars, wanted.microdollars))
    return any(old is not None and (new is None or new > old) for old, new in pairs)


def budget_hold_text(task_id: str, over: ExceededLimit) -> str:
    owner = "the swarm" if task_id == WHOLE_SWARM else task_id
    return f"the budget of {owner} is used up: {over}"
