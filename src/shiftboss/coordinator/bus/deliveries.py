"""What a worker gets with a task: its attempt, its handoff, and an earlier checkpoint."""

from __future__ import annotations

import json
from typing import Any

from shiftboss.protocol.bus import Delivery
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.tasks import Task
from shiftboss.store.port import Transaction


def delivery(tx: Transaction, task: Task, assignment: Assignment) -> Delivery:
    """The task as a worker gets it. Earlier attempts are only read if there were any."""
    salvage = tx.salvage(task.swarm_id, task.task_id) if assignment.epoch > 1 else []
    handoff = _handoff(tx, assignment)
    context = handoff.get("handoff", {}).get("context", {})
    return Delivery(
        bead_id=task.task_id,
        title=task.title,
        assigned_at=assignment.registered_at_ms,
        epoch=assignment.epoch,
        lease_expires_at=assignment.lease_expires_at_ms or 0,
        description=context.get("description") or task.description,
        checkpoint=_checkpoint(tx, task, assignment),
        salvage=[entry._asdict() for entry in salvage],
        spec_path=assignment.spec_path,
        worktree_path=assignment.worktree or None,
        timeout_seconds=assignment.lease_seconds,
        **handoff,
    )


def _checkpoint(tx: Transaction, task: Task, assignment: Assignment) -> dict[str, Any] | None:
    """What the last worker left behind, with the state of its milestones and its CI."""
    checkpoint: dict[str, Any] = json.loads(task.checkpoint) if task.checkpoint else {}
    if assignment.epoch > 1 and assignment.contract_version is not None:
        stored = tx.checkpoint(task.swarm_id, task.task_id)
        checkpoint = {**json.loads(stored.body), **checkpoint} if stored is not None else checkpoint
    return checkpoint or None


def _handoff(tx: Transaction, assignment: Assignment) -> dict[str, Any]:
    """The part of a delivery that comes from the handoff. Without one, nothing is read."""
    if assignment.contract_version is None:
        return {}
    handoff = tx.handoff(assignment.swarm_id, assignment.task_id)
    if handoff is None:
        return {}
    return {
        "contract_version": handoff.version,
        "handoff": json.loads(handoff.body),
        "branch": handoff.branch,
        "base_commit": handoff.base_commit,
        "model": handoff.model,
    }
