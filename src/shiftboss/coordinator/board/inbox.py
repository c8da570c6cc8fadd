"""Use case of the inbox: the waiting items of `status`, with the facts that a decision needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from shiftboss.coordinator.swarms.overview import (
    WAITING_LISTED_MAX,
    left_out,
    live_workers,
    reasons_in,
)
from shiftboss.coordinator.swarms.swarms import check_exists
from shiftboss.protocol.board.inbox import ITEMS_MAX, BudgetFacts, Inbox, InboxItem, InboxKind
from shiftboss.protocol.questions import Dispute
from shiftboss.rules.handoffs.escalations import asks_about_refusals
from shiftboss.rules.runs.budgets import MICRO, exceeded_limit
from shiftboss.rules.runs.records import WHOLE_SWARM
from shiftboss.rules.tasks.permission_denials import denied_tool
from shiftboss.rules.tasks.tasks import Question
from shiftboss.rules.tasks.waiting import Reason
from shiftboss.store.port import Transaction

SWARMS_READ_MAX: Final = 500

# The workers of a swarm that wait for a task.
Polling = Callable[[str], frozenset[str] | None]

# In the order of the inbox: an agent waits for the first ones.
_KINDS: Final[dict[str, InboxKind]] = {
    "question": "question",
    "dispute": "dispute",
    "scope_request": "scope",
    "review": "review",
    "budget": "budget",
    "stuck_claim": "stuck_claim",
    "failed": "failed",
    "refused_start": "refused_start",
    "overlap": "refused_start",
    "repo_locked": "refused_start",
    "dependency": "dependency",
    "not_landed": "landing",
    "pause": "pause",
    "not_running": "not_running",
}
_ORDER: Final = {kind: number for number, kind in enumerate(_KINDS)}


def listing(tx: Transaction, swarm_id: str | None, polling: Polling) -> Inbox:
    if swarm_id is not None:
        check_exists(tx, swarm_id)
        swarms = [swarm_id]
    else:
        swarms = tx.board_unsettled_swarms(SWARMS_READ_MAX)
    waiting: list[tuple[str, Reason]] = []
    total = 0
    for each in swarms:
        reasons, count = _waiting(tx, each, polling(each))
        waiting += [(each, reason) for reason in reasons]
        total += count
    waiting.sort(key=lambda item: _ORDER.get(item[1].kind, len(_ORDER)))
    items = [_item(tx, each, reason) for each, reason in waiting[:ITEMS_MAX]]
    return Inbox(items=_with_titles(tx, items), total=total)


def _waiting(
    tx: Transaction, swarm_id: str, polling: frozenset[str] | None
) -> tuple[list[Reason], int]:
    """The first ones of each kind, and how many there are."""
    run, workers = tx.plan_run(swarm_id), live_workers(tx, swarm_id, polling)
    reasons = list(reasons_in(tx, swarm_id, run, workers, WAITING_LISTED_MAX))
    more = left_out(tx, swarm_id, run, workers, reasons, WAITING_LISTED_MAX)
    return reasons, len(reasons) + more


def _with_titles(tx: Transaction, items: list[InboxItem]) -> list[InboxItem]:
    titles: dict[tuple[str, str], str] = {}
    for swarm_id in {item.swarm_id for item in items}:
        ids = {item.bead_id for item in items if item.swarm_id == swarm_id and item.bead_id}
        for task in tx.board_tasks(swarm_id, ids):
            titles[swarm_id, task.task_id] = task.title
    return [
        item.model_copy(update={"title": titles.get((item.swarm_id, item.bead_id or ""))})
        for item in items
    ]


def _item(tx: Transaction, swarm_id: str, reason: Reason) -> InboxItem:
    members: dict[str, Any] = {
        "kind": _KINDS.get(reason.kind, "refused_start"),
        "text": reason.text,
        **_DETAILS.get(reason.kind, _no_details)(tx, swarm_id, reason),
    }
    return InboxItem(
        swarm_id=swarm_id,
        bead_id=reason.bead_id,
        command=reason.command,
        also=list(reason.also),
        question_id=reason.question_id,
        until=reason.until_ms,
        **members,
    )


def _no_details(_tx: Transaction, _swarm_id: str, _reason: Reason) -> dict[str, Any]:
    return {}


def _question(tx: Transaction, swarm_id: str, reason: Reason) -> dict[str, Any]:
    asked = None if reason.question_id is None else tx.question(swarm_id, reason.question_id)
    if asked is None:
        return {}
    tool = denied_tool(asked.question)
    dispute = None if asked.dispute is None else Dispute.model_validate_json(asked.dispute)
    return {
        "kind": _kind_of_question(asked, tool),
        "text": asked.question,
        "since": asked.asked_at_ms,
        "worker": asked.worker,
        "contact": asked.contact,
        "dispute": dispute,
        "commit": None if dispute is None else dispute.commit,
        "tool": tool,
        **_last_refusal(tx, swarm_id, asked.task_id),
    }


def _kind_of_question(asked: Question, tool: str | None) -> InboxKind:
    if asked.dispute is not None:
        return "dispute"
    if tool is not None:
        return "permission"
    return "escalation" if asks_about_refusals(asked.question) else "question"


def _scope(tx: Transaction, swarm_id: str, reason: Reason) -> dict[str, Any]:
    number = reason.question_id
    asked = None if number is None else tx.scope_request_of_question(swarm_id, number)
    if asked is None:
        return {}
    return {
        "text": asked.reason,
        "since": asked.asked_at_ms,
        "worker": asked.worker,
        "request_id": asked.request_id,
        "paths": asked.paths,
    }


def _review(tx: Transaction, swarm_id: str, reason: Reason) -> dict[str, Any]:
    review = tx.review(swarm_id, reason.bead_id or "")
    if review is None:
        return {}
    return {
        "since": review.requested_at_ms,
        "commit": review.commit_sha,
        "receipt_id": review.receipt_id,
    }


def _hold(tx: Transaction, swarm_id: str, reason: Reason) -> dict[str, Any]:
    task_id = reason.bead_id or WHOLE_SWARM
    holds = tx.holds_of_task(swarm_id, task_id)
    since = [hold.since_ms for hold in holds if (hold.task_id, hold.kind) == (task_id, reason.kind)]
    details: dict[str, Any] = {"since": since[0] if since else None}
    budget = tx.budget(swarm_id, task_id)
    over = exceeded_limit(tx.usage_totals(swarm_id, task_id), budget)
    if reason.kind == "budget" and budget is not None and over is not None:
        scope = "swarm" if task_id == WHOLE_SWARM else "task"
        dollars = None if budget.microdollars is None else budget.microdollars / MICRO
        details["budget"] = BudgetFacts(
            scope=scope,
            unit=over.unit,
            limit=over.limit,
            spent=over.spent,
            tokens=budget.tokens,
            dollars=dollars,
        )
    return details


def _failed(tx: Transaction, swarm_id: str, reason: Reason) -> dict[str, Any]:
    task_id = reason.bead_id or ""
    task = tx.task(swarm_id, task_id)
    since = None if task is None else task.updated_at_ms
    worker = None if task is None else task.worker
    return {"since": since, "worker": worker, **_last_refusal(tx, swarm_id, task_id)}


def _stuck_claim(tx: Transaction, swarm_id: str, reason: Reason) -> dict[str, Any]:
    claim = tx.last_claim(swarm_id, reason.bead_id or "")
    if claim is None:
        return {}
    return {"since": claim.escalated_at_ms, "worker": claim.worker, "claim_id": claim.claim_id}


def _refused_start(tx: Transaction, swarm_id: str, reason: Reason) -> dict[str, Any]:
    refusal = tx.spawn_refusal(swarm_id, reason.bead_id or "")
    return {"since": None if refusal is None else refusal.at_ms}


def _landing(tx: Transaction, swarm_id: str, reason: Reason) -> dict[str, Any]:
    landing = tx.landing(swarm_id, reason.bead_id or "")
    if landing is None:
        return {}
    return {
        "since": landing.accepted_at_ms,
        "commit": landing.commit_sha,
        "receipt_id": landing.receipt_id,
    }


def _last_refusal(tx: Transaction, swarm_id: str, task_id: str) -> dict[str, Any]:
    claim = tx.last_claim(swarm_id, task_id)
    if claim is None or claim.state != "refused":
        return {}
    return {"claim_id": claim.claim_id, "refused_by": claim.refused_by}


_DETAILS: Final[dict[str, Callable[[Transaction, str, Reason], dict[str, Any]]]] = {
    "question": _question,
    "dispute": _question,
    "scope_request": _scope,
    "review": _review,
    "budget": _hold,
    "pause": _hold,
    "failed": _failed,
    "stuck_claim": _stuck_claim,
    "refused_start": _refused_start,
    "overlap": _refused_start,
    "repo_locked": _refused_start,
    "not_landed": _landing,
}
