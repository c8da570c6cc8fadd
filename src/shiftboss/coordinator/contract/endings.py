"""How the contract ends a worker that cannot finish: the task fails, a person is asked."""

from __future__ import annotations

from collections.abc import Sequence

from shiftboss.coordinator import questions
from shiftboss.coordinator.endings import fail_task
from shiftboss.protocol.handoffs import WorkerHandoff
from shiftboss.rules.claims.handoffs import Handoff
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.permission_denials import DIAGNOSIS, RECOVERY, termination
from shiftboss.store.port import Transaction

OPERATIONS_NAMED_MAX = 20


def contact_of(handoff: Handoff) -> str:
    return WorkerHandoff.model_validate_json(handoff.body).escalation.blocked_contact


def end_worker(
    tx: Transaction,
    held: Assignment,
    handoff: Handoff,
    reason: str,
    question: str,
    now_ms: int,
    report_key: bytes | None = None,
) -> int:
    """The question, whose answer the next worker of the task gets. The lock of the repo stays."""
    fail_task(tx, held, reason, now_ms, report_key=report_key)
    return questions.note(tx, held, contact_of(handoff), question, now_ms)


def end_for_permission(
    tx: Transaction,
    held: Assignment,
    handoff: Handoff,
    tool: str,
    error: str,
    operations: Sequence[str],
    now_ms: int,
    report_key: bytes | None = None,
) -> tuple[int, str]:
    """A worker without permissions cannot finish, however often it tries. The question with the
    ways out, and the last words."""
    end = termination(tool, error)
    lines = [end.report, end.message]
    lines += [f"Attempted: {one}" for one in operations[:OPERATIONS_NAMED_MAX]]
    lines += [DIAGNOSIS, *(f"- {one.name}: {one.words}" for one in RECOVERY)]
    lines.append("Answer with the instructions for the next worker, then retry the task.")
    asked = end_worker(tx, held, handoff, end.report, "\n".join(lines), now_ms, report_key)
    return asked, end.message
