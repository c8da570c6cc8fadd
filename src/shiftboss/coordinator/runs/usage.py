"""Use cases of usage and budgets: record usage, hold tasks over budget, show both."""

from __future__ import annotations

from shiftboss.coordinator.bus import questions
from shiftboss.coordinator.bus.dispatch import take_swarm, take_task
from shiftboss.coordinator.idempotency import report_digest
from shiftboss.coordinator.runs import holds
from shiftboss.coordinator.swarms.swarms import check_exists
from shiftboss.errors import Forbidden, NotHeld, StaleEpoch
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.handoffs import DEFAULT_CONTACT, WorkerHandoff
from shiftboss.protocol.questions import AnswerQuestionRequest
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
from shiftboss.rules.runs.budgets import MICRO, exceeded_limit
from shiftboss.rules.runs.records import WHOLE_SWARM, BudgetRecord, Hold, ProcessUsage, Totals
from shiftboss.rules.tasks.tasks import Question
from shiftboss.rules.tasks.waiting import raise_budget_command, set_budget_command
from shiftboss.store.monitoring.measures import Measure
from shiftboss.store.port import Transaction


def show(tx: Transaction, request: ShowUsageRequest) -> UsageList:
    """A page of tasks. Every page has the totals of the swarm."""
    swarm_id = request.swarm_id
    check_exists(tx, swarm_id)
    # The row of the whole swarm has an empty task id, so every page starts after it.
    rows = tx.usage_after(swarm_id, request.after, request.limit)
    totals, budget = tx.usage_totals(swarm_id, WHOLE_SWARM), tx.budget(swarm_id, WHOLE_SWARM)
    return UsageList(
        tasks=[_task(tx, swarm_id, task_id, used) for task_id, used in rows],
        next_after=rows[-1][0] if len(rows) == request.limit else None,
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
    over = exceeded_limit(totals, budget)
    if over is None or budget is None:
        return None
    scope = "swarm" if budget.task_id == WHOLE_SWARM else "task"
    return OverBudget(scope=scope, unit=over.unit, limit=over.limit, spent=over.spent)


def report(tx: Transaction, request: ReportUsageRequest, now_ms: int) -> UsageAnswer:
    """Record the usage of a process, even if its attempt has ended: it was spent."""
    _check_attempt(tx, request)
    if request.run is None or _has_usage(request):
        _add(tx, request, now_ms)
    _add_run(tx, request, now_ms)
    for task_id in (request.bead_id, WHOLE_SWARM):
        _hold_if_used_up(tx, request.swarm_id, task_id, now_ms, report=request)
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
    # Also when it has ended: no other worker changes the spending of the last one.
    if request.epoch == task.epoch and task.worker not in (None, request.name):
        raise NotHeld(task.task_id, None if held is None else held.worker)


def _add(tx: Transaction, request: ReportUsageRequest, now_ms: int) -> None:
    usage = ProcessUsage(
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
    previous = tx.process_usage(usage.swarm_id, usage.task_id, usage.epoch, usage.process)
    usage = budgets.grown(previous, usage)
    if previous is not None and previous == usage._replace(at_ms=previous.at_ms):
        return
    tx.put_process_usage(usage)
    _measure(tx, budgets.added_usage(previous, usage))
    for task_id in (usage.task_id, WHOLE_SWARM):
        totals = tx.usage_totals(usage.swarm_id, task_id)
        tx.put_usage_totals(usage.swarm_id, task_id, budgets.add_usage(totals, previous, usage))


def _has_usage(request: ReportUsageRequest) -> bool:
    """Some agents do not say what they use: that is not a use of nothing."""
    counted = (request.input_tokens, request.output_tokens, request.cached_tokens, request.dollars)
    return any(counted)


def _add_run(tx: Transaction, request: ReportUsageRequest, now_ms: int) -> None:
    """Once for each process: the report may come again."""
    swarm_id, task_id, run = request.swarm_id, request.bead_id, request.run
    if run is None:
        return
    key = report_digest("agent_run", f"{request.epoch}.{request.process}")
    if tx.event_of_report(swarm_id, task_id, key) is not None:
        return
    usage = {"input_tokens", "output_tokens", "cached_tokens", "dollars"}
    tx.add_event(
        swarm_id,
        EventKind.AGENT_RUN_ENDED,
        now_ms,
        {
            "bead_id": task_id,
            "worker": request.name,
            "epoch": request.epoch,
            "process": request.process,
            **run.model_dump(),
            **request.model_dump(include=usage),
        },
        task_id=task_id,
        report_key=key,
    )


def _measure(tx: Transaction, added: Totals) -> None:
    tx.measure(Measure.TOKENS, added.input_tokens, "input")
    tx.measure(Measure.TOKENS, added.output_tokens, "output")
    tx.measure(Measure.TOKENS, added.cached_tokens, "cached")
    tx.measure(Measure.MICRODOLLARS, added.microdollars)


def set_budget(
    tx: Transaction, request: SetBudgetRequest, now_ms: int, *, by_operator: bool
) -> BudgetAnswer:
    """A repeat changes nothing. A larger budget resumes what the smaller one stopped."""
    take_swarm(tx, request.swarm_id, now_ms)
    task_id = WHOLE_SWARM
    if request.bead_id is not None:
        task_id = take_task(tx, request.swarm_id, request.bead_id)[0].task_id
    current = tx.budget(request.swarm_id, task_id)
    proposed = BudgetRecord(
        request.swarm_id,
        task_id,
        request.tokens,
        budgets.dollar_limit(request.dollars),
        by_operator,
        current.question_id if current else None,
    )
    if not by_operator:
        proposed = _without_operator_rights(current, proposed)
    changed = proposed != current
    if changed:
        tx.put_budget(proposed)
        _add_budget_event(tx, request, now_ms)
    if _over(tx, request.swarm_id, task_id) is None:
        _resume(tx, proposed, now_ms)
    else:
        _hold_if_used_up(tx, request.swarm_id, task_id, now_ms, report=None)
    return BudgetAnswer(
        bead_id=request.bead_id,
        budget=budget_view(proposed),
        changed=changed,
        over=_over(tx, request.swarm_id, task_id),
    )


def _without_operator_rights(current: BudgetRecord | None, proposed: BudgetRecord) -> BudgetRecord:
    """The limits that any caller may set. A budget of the operator stays, so that running a plan
    again does not lower it."""
    if budgets.is_raise(current, proposed):
        raise Forbidden(
            "only the operator may raise a budget; nothing was changed",
            field="tokens" if current is None or proposed.tokens != current.tokens else "dollars",
            hint=f"`{set_budget_command(proposed)}`, with the operator's token",
        )
    return current if current is not None and current.by_operator else proposed


def _add_budget_event(tx: Transaction, request: SetBudgetRequest, now_ms: int) -> None:
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
    report: ReportUsageRequest | None,
) -> None:
    """Hold the task or the swarm if its budget is used up, once. `report` is the report that used
    it up: then the contact is asked. A caller that sets a budget too small is not asked."""
    budget = tx.budget(swarm_id, task_id)
    over = budgets.exceeded_limit(tx.usage_totals(swarm_id, task_id), budget)
    if budget is None or over is None or _hold_of(tx, budget) is not None:
        return
    reason = budgets.budget_hold_text(task_id, over)
    tx.put_hold(Hold(swarm_id, task_id, "budget", reason, now_ms, None))
    tx.add_event(
        swarm_id,
        EventKind.BUDGET_EXCEEDED,
        now_ms,
        {
            "bead_id": report.bead_id if report else task_id or None,
            "scope": "swarm" if task_id == WHOLE_SWARM else "task",
            **over._asdict(),
        },
        task_id=task_id or None,
    )
    if report is not None:
        asked = _ask(tx, report, task_id, reason, now_ms)
        tx.put_budget(budget._replace(question_id=asked))


def _hold_of(tx: Transaction, budget: BudgetRecord) -> Hold | None:
    key = (budget.task_id, "budget")
    holds = tx.holds_of_task(budget.swarm_id, budget.task_id)
    return next((hold for hold in holds if (hold.task_id, hold.kind) == key), None)


def _ask(
    tx: Transaction, request: ReportUsageRequest, task_id: str, reason: str, now_ms: int
) -> int:
    """Ask the contact. The question belongs to no attempt, so it stays open when this one ends."""
    handoff = tx.handoff(request.swarm_id, request.bead_id)
    contact = DEFAULT_CONTACT
    if handoff is not None:
        contact = WorkerHandoff.model_validate_json(handoff.body).escalation.blocked_contact
    budget = tx.budget(request.swarm_id, task_id)
    used = tx.usage_totals(request.swarm_id, task_id)
    command = raise_budget_command(request.swarm_id, task_id, budget, used)
    return questions.put(
        tx,
        Question(
            swarm_id=request.swarm_id,
            question_id=0,
            task_id=request.bead_id,
            epoch=0,
            worker=request.name,
            contact=contact,
            question=f"{reason}. No more of its tasks are handed out. Raise it with `{command}`, "
            "or cancel the remaining tasks.",
            asked_at_ms=now_ms,
        ),
    )


def _resume(tx: Transaction, budget: BudgetRecord, now_ms: int) -> None:
    """Within its budget again: answer the question and resume dispatch."""
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
