"""Halts: a fatal failure stops a chain of repos until the operator resumes it."""

from __future__ import annotations

from shiftboss.coordinator.bus.dispatch import drain
from shiftboss.coordinator.contract.attempts import add_attempt_event
from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.errors import RepoBlocked, UnknownHalt
from shiftboss.protocol.contract.contract_requests import OperatorAnswer, ResumeRequest
from shiftboss.protocol.events import EventKind
from shiftboss.rules.contract.records import Halt
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.tasks import Task
from shiftboss.store.port import Transaction


def halt_chain(
    tx: Transaction,
    policy: ActivePolicy,
    held: Assignment,
    repo: str | None,
    reason: str,
    now_ms: int,
) -> int:
    """Stop spawning and dispatch in the chain of the repo until the operator lifts the halt."""
    repos = sorted(policy.chain(repo)) if repo is not None and repo in policy else []
    tx.hold_repos()
    halt_id = tx.add_halt(
        Halt(0, repos, reason, held.swarm_id, held.task_id, now_ms, lifted_at_ms=None)
    )
    add_attempt_event(
        tx, held, EventKind.CHAIN_HALTED, now_ms, halt_id=halt_id, repos=repos, reason=reason
    )
    return halt_id


def is_halted(tx: Transaction, task: Task) -> bool:
    """Whether the repo of the task is in a halted chain, where nothing is handed out."""
    return (
        task.contract_version is not None
        and tx.halt_of_task(task.swarm_id, task.task_id) is not None
    )


def check_not_halted(tx: Transaction, task: Task) -> None:
    halt = tx.halt_of_task(task.swarm_id, task.task_id) if task.contract_version else None
    if halt is not None:
        raise RepoBlocked(
            f"{task.task_id} is halted: {halt.reason}; nothing was changed",
            field="task_id",
            hint="the operator can resume it: "
            f"`shiftboss resume {halt.halt_id} --reason 'it is fixed'`",
        )


def halt_of(tx: Transaction, halt_id: int) -> Halt:
    halt = tx.halt(halt_id)
    if halt is None:
        raise UnknownHalt(
            f"There is no halt {halt_id}",
            field="halt_id",
            hint="`shiftboss repo list` shows the halts in force",
        )
    return halt


def resume(tx: Transaction, request: ResumeRequest, halt: Halt, now_ms: int) -> OperatorAnswer:
    """The operator lifts a halt; a repeat changes nothing."""
    has_swarm = tx.take_swarm(halt.swarm_id) is not None
    if not tx.lift_halt(halt.halt_id, now_ms):
        return OperatorAnswer(success=True, changed=False)
    if has_swarm:
        tx.add_event(
            halt.swarm_id,
            EventKind.HALT_LIFTED,
            now_ms,
            {"halt_id": halt.halt_id, "repos": halt.repos, "reason": request.reason},
            task_id=halt.task_id,
        )
        drain(tx, halt.swarm_id, now_ms)
    return OperatorAnswer(success=True, changed=True)
