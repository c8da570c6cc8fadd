"""Usage and budgets, as they are shown."""

from __future__ import annotations

from shiftboss.coordinator.swarms import existing
from shiftboss.protocol.bus import DEFAULT_SWARM
from shiftboss.protocol.runs import (
    BudgetView,
    OverBudget,
    ShowUsageRequest,
    TaskUsage,
    UsageList,
    UsageTotals,
)
from shiftboss.rules.runs.budgets import MICRO, used_up
from shiftboss.rules.runs.records import WHOLE_SWARM, Budget, Totals
from shiftboss.store.port import Transaction


def show(tx: Transaction, request: ShowUsageRequest) -> UsageList:
    """A page of tasks; the sums of the swarm are on every page."""
    swarm_id = request.swarm_id
    if swarm_id != DEFAULT_SWARM:
        existing(tx, swarm_id)
    # Everything is behind the row of the swarm, whose id is empty.
    found = tx.usage_after(swarm_id, request.after, request.limit)
    totals, budget = tx.usage_totals(swarm_id, WHOLE_SWARM), tx.budget(swarm_id, WHOLE_SWARM)
    return UsageList(
        tasks=[_task(tx, swarm_id, task_id, used) for task_id, used in found],
        next_after=found[-1][0] if len(found) == request.limit else None,
        swarm=totals_view(totals),
        budget=budget_view(budget),
        over=over_view(totals, budget),
    )


def _task(tx: Transaction, swarm_id: str, task_id: str, used: Totals) -> TaskUsage:
    budget = tx.budget(swarm_id, task_id)
    return TaskUsage(
        bead_id=task_id,
        used=totals_view(used),
        budget=budget_view(budget),
        over=over_view(used, budget),
    )


def totals_view(totals: Totals) -> UsageTotals:
    return UsageTotals(
        tokens=totals.tokens,
        input_tokens=totals.input_tokens,
        output_tokens=totals.output_tokens,
        cached_tokens=totals.cached_tokens,
        dollars=totals.microdollars / MICRO,
        unpriced_tokens=totals.unpriced_tokens,
    )


def budget_view(budget: Budget | None) -> BudgetView | None:
    if budget is None:
        return None
    limit = budget.microdollars
    return BudgetView(tokens=budget.tokens, dollars=None if limit is None else limit / MICRO)


def over_view(totals: Totals, budget: Budget | None) -> OverBudget | None:
    over = used_up(totals, budget)
    if over is None or budget is None:
        return None
    scope = "swarm" if budget.task_id == WHOLE_SWARM else "task"
    return OverBudget(scope=scope, unit=over.unit, limit=over.limit, spent=over.spent)
