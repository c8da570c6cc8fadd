"""Use case of `why`: reads the facts from which the rules name the reasons of a task or packet."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from shiftboss.coordinator.claims.claim_passes import living_verifiers
from shiftboss.coordinator.handoffs.ownership import holders
from shiftboss.coordinator.swarms.overview import live_workers, reason_view, refused_by
from shiftboss.coordinator.swarms.swarms import check_exists
from shiftboss.errors import UnknownTask
from shiftboss.protocol.bus import TaskRequest, WhyAnswer
from shiftboss.protocol.handoffs import WorkerHandoff
from shiftboss.rules.handoffs.handoffs import Reservation
from shiftboss.rules.runs.records import SpawnRefusal
from shiftboss.rules.tasks.lifecycle import packet_status
from shiftboss.rules.tasks.packet_reasons import packet_reasons
from shiftboss.rules.tasks.reasons import TaskSituation, reasons_of
from shiftboss.rules.tasks.tasks import Task
from shiftboss.rules.tasks.waiting import Holder
from shiftboss.store.port import Transaction

# Of one task: enough to start with.
QUESTIONS_NAMED_MAX = 20


def why(
    tx: Transaction, request: TaskRequest, polling: frozenset[str] | None, now_ms: int
) -> WhyAnswer:
    """`polling` are the workers of the swarm that wait for a task; None without a server."""
    check_exists(tx, request.swarm_id)
    task = tx.task(request.swarm_id, request.bead_id)
    if task is None:
        return _why_packet(tx, request)
    reasons = reasons_of(_facts(tx, task, polling, now_ms))
    return WhyAnswer(
        bead_id=task.task_id,
        swarm_id=task.swarm_id,
        status=task.status,
        title=task.title,
        reasons=[reason_view(reason) for reason in reasons],
    )


def _why_packet(tx: Transaction, request: TaskRequest) -> WhyAnswer:
    packet = tx.assignment(request.swarm_id, request.bead_id)
    if packet is None or packet.packet_id is None:
        raise UnknownTask(request.bead_id)
    return WhyAnswer(
        bead_id=packet.task_id,
        swarm_id=packet.swarm_id,
        status=packet_status(packet.state),
        title=packet.worker,
        reasons=[reason_view(reason) for reason in packet_reasons(packet)],
    )


def _facts(
    tx: Transaction, task: Task, polling: frozenset[str] | None, now_ms: int
) -> TaskSituation:
    swarm_id, task_id = task.swarm_id, task.task_id
    run = tx.plan_run(swarm_id)
    held_back = tx.holds_of_task(swarm_id, task_id)
    refusal = tx.spawn_refusal(swarm_id, task_id)
    claim = tx.last_claim(swarm_id, task_id) if task.contract_version else None
    attempt = tx.contract_attempt(swarm_id, task_id) if task.contract_version else None
    budgets = {hold.task_id: tx.budget(swarm_id, hold.task_id) for hold in held_back}
    questions = tx.open_questions_of_task(swarm_id, task_id, QUESTIONS_NAMED_MAX)
    unfinished = tx.unfinished_dependencies(swarm_id, task_id)
    return TaskSituation(
        task=task,
        run=run,
        is_offline=polling is None,
        assignment=tx.assignment(swarm_id, task_id) if task.status == "active" else None,
        dependencies=[_existing(tx, swarm_id, dependency) for dependency in unfinished],
        unlanded=_unlanded(tx, task, unfinished) if run and run.auto_merge else [],
        workers=live_workers(tx, swarm_id, polling),
        queue_position=tx.queue_position(task) if task.status == "queued" else 0,
        holds=held_back,
        budgets={owner: budget for owner, budget in budgets.items() if budget},
        used={owner: tx.usage_totals(swarm_id, owner) for owner in budgets},
        questions=questions,
        scope_requests=[
            request
            for question in questions
            if (request := tx.scope_request_of_question(swarm_id, question.question_id))
        ],
        claim=claim,
        passes=tx.claim_passes(claim) if claim else (),
        verifiers=living_verifiers(tx, now_ms) if claim else (),
        now_ms=now_ms,
        violations=claim.violations if claim else (),
        halt=tx.halt_of_task(swarm_id, task_id) if task.contract_version else None,
        paused=attempt.paused if attempt else None,
        refusal=refusal,
        holders=_holders(tx, task, refusal),
        landing=tx.landing(swarm_id, task_id) if task.status == "done" else None,
        review=tx.review(swarm_id, task_id) if task.status == "done" else None,
    )


def _existing(tx: Transaction, swarm_id: str, task_id: str) -> Task:
    task = tx.task(swarm_id, task_id)
    assert task is not None, "a task is only deleted with its swarm"
    return task


def _unlanded(tx: Transaction, task: Task, unfinished: Collection[str]) -> list[str]:
    """A plan that lands its work starts a task when its dependencies have landed. Otherwise the
    task starts on their commits."""
    return [
        dependency
        for dependency in tx.dependencies(task.swarm_id, task.task_id)
        if dependency not in unfinished
        and (landing := tx.landing(task.swarm_id, dependency))
        and landing.landed_commit is None
    ]


def _holders(tx: Transaction, task: Task, refusal: SpawnRefusal | None) -> list[Holder]:
    if task.status == "open" and refusal is not None:
        return refused_by(tx, refusal)
    if task.status == "failed" and task.contract_version is not None:
        return _owners_of_its_files(tx, task)
    return []


def _owners_of_its_files(tx: Transaction, task: Task) -> list[Holder]:
    """A failed task has released its files; another one may own them by now."""
    handoff = tx.handoff(task.swarm_id, task.task_id)
    if handoff is None:
        return []
    patterns = WorkerHandoff.model_validate_json(handoff.body).contract.files_owned
    wanted = Reservation(task.swarm_id, task.task_id, handoff.repo_id, patterns)
    owners: dict[tuple[str, str], Mapping[str, Any]] = {
        (overlap["swarm_id"], overlap["bead_id"]): overlap for overlap in holders(tx, wanted)
    }
    return [
        Holder(swarm_id, task_id, overlap["owned"], owner.status)
        for (swarm_id, task_id), overlap in owners.items()
        if (owner := tx.task(swarm_id, task_id))
    ]
