"""The record of each strategy: completions, refusals, failures and disputes of its tasks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from shiftboss.protocol.claims.verdicts import Verdict
from shiftboss.protocol.handoff_requests import PlanAnswer, PlanRequest
from shiftboss.protocol.handoffs import WorkerHandoff
from shiftboss.rules.access.actors import SERVER, Actor
from shiftboss.rules.handoffs.handoffs import Handoff, Signal
from shiftboss.rules.handoffs.strategies import (
    SignalKind,
    StrategyRecord,
    disputed,
    impact_of,
    recorded,
    signal_weight,
    suggest,
)
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.store.port import Transaction

UNNAMED = "unnamed"
LESSONS_MAX = 10


def record_signal(
    tx: Transaction,
    handoff: Handoff,
    assignment: Assignment,
    kind: SignalKind,
    now_ms: int,
    *,
    verdict: Verdict | None = None,
    reason: str | None = None,
    retries: int = 0,
    number: int = 0,
    cost: float | None = None,
) -> None:
    """Store a signal, and add it to the totals of its strategy."""
    violated = [violation.check for violation in verdict.violations] if verdict else []
    impact = impact_of(kind, violated=violated)
    duration_ms = max(now_ms - assignment.registered_at_ms, 0)
    strategy = handoff.strategy or UNNAMED
    tx.add_signal(
        Signal(
            strategy=strategy,
            at_ms=now_ms,
            swarm_id=handoff.swarm_id,
            task_id=handoff.task_id,
            epoch=assignment.epoch,
            number=number,
            kind=kind,
            impact=impact,
            violation_type=_violation_type(kind, violated),
            details=json.dumps(
                {
                    "violations": [violation.message for violation in verdict.violations]
                    if verdict
                    else [],
                    "reason": reason,
                    "files_planned": _planned(handoff),
                    "files_changed": [change.path for change in verdict.changes[:200]]
                    if verdict
                    else [],
                    "duration_ms": duration_ms,
                    "refusals": assignment.refusals,
                    "retries": retries,
                    "cost": cost,
                }
            ),
        )
    )
    record = tx.take_strategy(strategy) or StrategyRecord(strategy, updated_at_ms=now_ms)
    if kind == "dispute":
        tx.put_strategy(disputed(record))
        return
    weight = signal_weight(
        impact, refusals=assignment.refusals, retries=retries, duration_ms=duration_ms
    )
    tx.put_strategy(recorded(record, impact, weight, now_ms))


def record_failure(
    tx: Transaction, assignment: Assignment, reason: str, failures: int, now_ms: int
) -> None:
    """Record the failure of a task with a handoff; others have no known strategy."""
    if assignment.contract_version is None:
        return
    handoff = tx.handoff(assignment.swarm_id, assignment.task_id)
    if handoff is not None:
        record_signal(
            tx, handoff, assignment, "failure", now_ms, reason=reason, retries=failures - 1
        )


def _planned(handoff: Handoff) -> list[str]:
    return WorkerHandoff.model_validate_json(handoff.body).contract.files_owned


def _violation_type(kind: SignalKind, violated: Sequence[str]) -> str | None:
    if "scope" in violated:
        return "scope_creep"
    if violated:
        return violated[0]
    return "failure" if kind == "failure" else None


def plan(tx: Transaction, request: PlanRequest, now_ms: int, reader: Actor = SERVER) -> PlanAnswer:
    """The strategy with the best record, and its recent problems, as far as the reader may see
    their swarms."""
    records = [record for record in tx.strategies() if record.strategy != UNNAMED]
    chosen = suggest(records, now_ms, seed=request.seed)
    return PlanAnswer(
        strategy=chosen.strategy,
        reason=chosen.reason,
        strategies=[asdict(row) for row in chosen.table],
        lessons=_lessons(tx, chosen.strategy, reader),
    )


def _lessons(tx: Transaction, strategy: str, reader: Actor) -> list[dict[str, Any]]:
    return [
        {
            "bead_id": signal.task_id,
            "kind": signal.kind,
            "violation_type": signal.violation_type,
            "at": signal.at_ms,
            **json.loads(signal.details),
        }
        for signal in tx.signals(strategy, 50)
        if signal.kind != "completion" and reader.sees(signal.swarm_id)
    ][:LESSONS_MAX]
