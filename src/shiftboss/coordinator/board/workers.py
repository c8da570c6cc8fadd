"""Use case of the workers of a swarm, each with its task and where it is with it."""

from __future__ import annotations

from collections.abc import Mapping

from shiftboss.coordinator.board.task_facts import milestone_facts
from shiftboss.coordinator.swarms.swarms import check_exists
from shiftboss.protocol.board.workers import ListWorkersRequest, WorkerCard, WorkerList
from shiftboss.rules.contract.records import ContractAttempt
from shiftboss.rules.runs.budgets import MICRO
from shiftboss.rules.runs.records import Totals
from shiftboss.rules.tasks.tasks import bus_status
from shiftboss.store.board.port import HandoffSummary, WorkerRow
from shiftboss.store.port import Transaction


def listing(
    tx: Transaction, request: ListWorkersRequest, polling: frozenset[str] | None, now_ms: int
) -> WorkerList:
    swarm_id = request.swarm_id
    check_exists(tx, swarm_id)
    last_event = tx.last_event(swarm_id)
    rows = tx.board_workers(swarm_id, request.after, request.limit)
    ids = [row.task_id for row in rows if row.task_id is not None]
    facts = _TaskFacts(tx, swarm_id, ids)
    return WorkerList(
        workers=[_card(row, facts, row.name in (polling or ()), now_ms) for row in rows],
        next_after=rows[-1].name if len(rows) == request.limit else None,
        last_event_id=last_event.event_id if last_event else 0,
        server_time=now_ms,
    )


class _TaskFacts:
    """About the tasks that the workers hold."""

    def __init__(self, tx: Transaction, swarm_id: str, ids: list[str]) -> None:
        self.titles = {task.task_id: task.title for task in tx.board_tasks(swarm_id, ids)}
        self.attempts: Mapping[str, ContractAttempt] = tx.board_contract_attempts(swarm_id, ids)
        self.used: Mapping[str, Totals] = tx.board_usage(swarm_id, ids)
        self.handoffs: Mapping[str, HandoffSummary] = tx.board_handoffs(swarm_id, ids)


def _card(row: WorkerRow, facts: _TaskFacts, is_polling: bool, now_ms: int) -> WorkerCard:
    task_id = row.task_id or ""
    used = facts.used.get(task_id, Totals())
    handoff = facts.handoffs.get(task_id)
    milestone = milestone_facts(row.state, row.epoch or 0, facts.attempts.get(task_id))
    idle_ms = now_ms - row.last_activity_at_ms if row.state is None else 0
    return WorkerCard(
        name=row.name,
        status=bus_status(row.state, is_polling=is_polling),
        state=row.state.value if row.state else None,
        task=row.task_id,
        title=facts.titles.get(task_id),
        epoch=row.epoch,
        started_at=row.registered_at_ms,
        lease_expires_at=row.lease_expires_at_ms,
        milestone=milestone.milestone,
        substate=milestone.substate,
        progress=milestone.progress,
        context_usage=row.context_usage,
        step=row.current_step,
        tokens=used.tokens,
        dollars=used.microdollars / MICRO,
        idle_seconds=max(idle_ms, 0) // 1000,
        model=handoff.model if handoff else None,
    )
