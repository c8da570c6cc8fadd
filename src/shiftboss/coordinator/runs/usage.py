"""Use cases of usage and budgets: what a plan has used, what it may, and what happens then."""

from __future__ import annotations

from shiftboss.coordinator.bus import questions
from shiftboss.coordinator.bus.dispatch import take_swarm, take_task
from shiftboss.coordinator.runs import holds
from shiftboss.coordinator.swarms.swarms import existing
from shiftboss.errors import Forbidden, NotHeld, StaleEpoch
from shiftboss.protocol.bus import DEFAULT_SWARM, AnswerQuestionRequest
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.handoffs import DEFAULT_CONTACT, WorkerHandoff
from shiftboss.protocol.runs import (
    BudgetAnswer,
    BudgetView,
    OverBudget,
    ReportUsageRequest,
    SetBudgetRequest,
    ShowUsageRequest,
    TaskUsage,
    UsageAnswer,
    UsageList,
    UsageTotals,
)
from shiftboss.rules.runs import budgets
from shiftboss.rules.runs.budgets import MICRO, used_up
from shiftboss.rules.runs.records import WHOLE_SWARM, BudgetRecord, Hold, ProcessUsage, Totals
from shiftboss.rules.tasks.tasks import Question
from shiftboss.store.port import Transaction

# Usage and budgets, as they are shown.


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


def budget_view(budget: BudgetRecord | None) -> BudgetView | None:
    if budget is None:
        return None
    limit = budget.microdollars
    return BudgetView(tokens=budget.tokens, dollars=None if limit is None else limit / MICRO)


def over_view(totals: Totals, budget: BudgetRecord | None) -> OverBudget | None:
    over = used_up(totals, budget)
    if over is None or budget is None:
        return None
    scope = "swarm" if budget.task_id == WHOLE_SWARM else "task"
    return OverBudget(scope=scope, unit=over.unit, limit=over.limit, spent=over.spent)


def report(tx: Transaction, request: ReportUsageRequest, now_ms: int) -> UsageAnswer:
    """Of an attempt that is over, too: it was spent all the same."""
    _check_attempt(tx, request)
    _add(tx, request, now_ms)
    for task_id in (request.bead_id, WHOLE_SWARM):
        _hold_if_used_up(tx, request.swarm_id, task_id, now_ms, asks_for=request)
    swarm_id = request.swarm_id
    return UsageAnswer(
        bead_id=request.bead_id,
        task=totals_view(tx.usage_totals(swarm_id, request.bead_id)),
        swarm=totals_view(tx.usage_totals(swarm_id, WHOLE_SWARM)),
        over=_over(tx, swarm_id, WHOLE_SWARM) or _over(tx, swarm_id, request.bead_id),
    )


def _check_attempt(tx: Transaction, request: ReportUsageRequest) -> None:
    task, held, _ = take_task(tx, request.swarm_id, request.bead_id)
    if request.epoch > task.epoch:
        raise StaleEpoch(task.task_id, request.epoch, task.epoch)
    if held is not None and held.epoch == request.epoch and held.worker != request.name:
        raise NotHeld(task.task_id, held.worker)


def _add(tx: Transaction, request: ReportUsageRequest, now_ms: int) -> None:
    said = ProcessUsage(
        swarm_id=request.swarm_id,
        task_id=request.bead_id,
        epoch=request.epoch,
        process=request.process,
        input_tokens=request.input_tokens,
        output_tokens=request.output_tokens,
        cached_tokens=request.cached_tokens,
        microdollars=None if request.dollars is None else budgets.microdollars(request.dollars),
        at_ms=now_ms,
    )
    known = tx.process_usage(said.swarm_id, said.task_id, said.epoch, said.process)
    if budgets.is_late(known, said):
        return
    tx.put_process_usage(said)
    for task_id in (said.task_id, WHOLE_SWARM):
        before = tx.usage_totals(said.swarm_id, task_id)
        tx.put_usage_totals(said.swarm_id, task_id, budgets.with_usage(before, known, said))


def set_budget(
    tx: Transaction, request: SetBudgetRequest, now_ms: int, *, by_operator: bool
) -> BudgetAnswer:
    """The same again changes nothing. A larger one sets going what the smaller one had stopped."""
    take_swarm(tx, request.swarm_id, now_ms)
    task_id = WHOLE_SWARM
    if request.bead_id is not None:
        task_id = take_task(tx, request.swarm_id, request.bead_id)[0].task_id
    known = tx.budget(request.swarm_id, task_id)
    wanted = BudgetRecord(
        request.swarm_id,
        task_id,
        request.tokens,
        budgets.dollar_limit(request.dollars),
        by_operator,
        known.question_id if known else None,
    )
    if not by_operator:
        wanted = _allowed(known, wanted)
    changed = wanted != known
    if changed:
        tx.put_budget(wanted)
        _tell_budget(tx, request, now_ms)
    if _over(tx, request.swarm_id, task_id) is None:
        _let_go_on(tx, wanted, now_ms)
    else:
        _hold_if_used_up(tx, request.swarm_id, task_id, now_ms, asks_for=None)
    return BudgetAnswer(
        bead_id=request.bead_id,
        budget=budget_view(wanted),
        changed=changed,
        over=_over(tx, request.swarm_id, task_id),
    )


def _allowed(known: BudgetRecord | None, wanted: BudgetRecord) -> BudgetRecord:
    """What everybody may say. What the operator has set stays as it is: a plan that is run again
    must not take back what was given to it."""
    if budgets.is_raise(known, wanted):
        raise Forbidden(
            "only the operator may raise a budget; nothing was changed",
            field="tokens" if known is None or wanted.tokens != known.tokens else "dollars",
            hint="`shiftboss budget set`, with the operator's token",
        )
    return known if known is not None and known.by_operator else wanted


def _tell_budget(tx: Transaction, request: SetBudgetRequest, now_ms: int) -> None:
    tx.add_event(
        request.swarm_id,
        EventKind.BUDGET_SET,
        now_ms,
        {"bead_id": request.bead_id, "tokens": request.tokens, "dollars": request.dollars},
        task_id=request.bead_id,
    )


def _over(tx: Transaction, swarm_id: str, task_id: str) -> OverBudget | None:
    return over_view(tx.usage_totals(swarm_id, task_id), tx.budget(swarm_id, task_id))


def _hold_if_used_up(
    tx: Transaction,
    swarm_id: str,
    task_id: str,
    now_ms: int,
    *,
    asks_for: ReportUsageRequest | None,
) -> None:
    """Once: as long as the hold is there, everybody knows. `asks_for` is the report that used it
    up; who sets a budget that is used up already need not be asked."""
    budget = tx.budget(swarm_id, task_id)
    over = budgets.used_up(tx.usage_totals(swarm_id, task_id), budget)
    if budget is None or over is None or _hold_of(tx, budget) is not None:
        return
    reason = budgets.why_held(task_id, over)
    tx.put_hold(Hold(swarm_id, task_id, "budget", reason, now_ms, None))
    tx.add_event(
        swarm_id,
        EventKind.BUDGET_EXCEEDED,
        now_ms,
        {
            "bead_id": asks_for.bead_id if asks_for else task_id or None,
            "scope": "swarm" if task_id == WHOLE_SWARM else "task",
            **over._asdict(),
        },
        task_id=task_id or None,
    )
    if asks_for is not None:
        asked = _ask(tx, asks_for, task_id, reason, now_ms)
        tx.put_budget(budget._replace(question_id=asked))


def _hold_of(tx: Transaction, budget: BudgetRecord) -> Hold | None:
    found = tx.holds_of_task(budget.swarm_id, budget.task_id)
    mine = (budget.task_id, "budget")
    return next((one for one in found if (one.task_id, one.kind) == mine), None)


def _ask(
    tx: Transaction, request: ReportUsageRequest, task_id: str, reason: str, now_ms: int
) -> int:
    """Of no attempt: it stays open when the attempt ends that has used it up."""
    handoff = tx.handoff(request.swarm_id, request.bead_id)
    contact = DEFAULT_CONTACT
    if handoff is not None:
        contact = WorkerHandoff.model_validate_json(handoff.body).escalation.blocked_contact
    named = "" if task_id == WHOLE_SWARM else f" --task {task_id}"
    return questions.put(
        tx,
        Question(
            swarm_id=request.swarm_id,
            question_id=0,
            task_id=request.bead_id,
            epoch=0,
            worker=request.name,
            contact=contact,
            question=f"{reason}. Nothing more of it is handed out. Raise it with `shiftboss budget "
            f"set{named} --swarm {request.swarm_id}`, or cancel what is left.",
            asked_at_ms=now_ms,
        ),
    )


def _let_go_on(tx: Transaction, budget: BudgetRecord, now_ms: int) -> None:
    """Within its budget again: the question has its answer, and dispatch goes on."""
    hold = _hold_of(tx, budget)
    if hold is None:
        return
    asked = budget.question_id
    question = tx.question(budget.swarm_id, asked) if asked is not None else None
    if question is not None:
        tx.put_budget(budget._replace(question_id=None))
        if question.answer is None:
            answer = AnswerQuestionRequest(
                swarm_id=budget.swarm_id,
                question_id=question.question_id,
                answer="the budget was raised",
            )
            questions.put_answer(tx, answer, now_ms)
    holds.lift(tx, hold, "the budget was raised", now_ms)
