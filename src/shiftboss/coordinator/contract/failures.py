"""Use case of failures: classify a reported failure, and act according to its class."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from shiftboss.coordinator.bus import questions
from shiftboss.coordinator.bus.dispatch import void_claim
from shiftboss.coordinator.contract.attempts import add_attempt_event, attempt_of
from shiftboss.coordinator.contract.halts import halt_chain
from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.coordinator.contract.recovery import contact_of, end_for_permission, end_worker
from shiftboss.errors import UnknownHandoff
from shiftboss.protocol.contract.contract_requests import FailureAnswer, ReportFailureRequest
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.policy import Failures
from shiftboss.rules.claims.claims import check_no_claim
from shiftboss.rules.contract.failures import (
    FailureAction,
    FailureClass,
    action_for,
    classify,
    sounds_fatal,
    suspected_fatal_action,
)
from shiftboss.rules.contract.records import ContractAttempt
from shiftboss.rules.handoffs.handoffs import Handoff
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.permission_denials import (
    DEFAULT_TOOL,
    ERROR_CHARACTERS_MAX,
    Denial,
    after_denial,
    after_success,
    find_denial,
    must_terminate,
)
from shiftboss.rules.tasks.tasks import check_holds
from shiftboss.store.port import Transaction

MESSAGE_CHARACTERS_MAX = 2000


class _FailureCase(NamedTuple):
    """A failure, with everything that its action needs."""

    held: Assignment
    handoff: Handoff
    failure_class: FailureClass
    denial: Denial
    operations: list[str]
    message: str
    now_ms: int


def record_failure(
    tx: Transaction, policy: ActivePolicy, request: ReportFailureRequest, now_ms: int
) -> FailureAnswer:
    taken = tx.take_task(request.swarm_id, request.bead_id)
    handoff = tx.handoff(request.swarm_id, request.bead_id)
    if taken is None or handoff is None:
        raise UnknownHandoff(request.bead_id)
    held = check_holds(taken.assignment, request.bead_id, request.name, request.epoch)
    settings = policy.settings.failures
    failure_class = classify(request.error_type, request.message, settings)
    suspected = sounds_fatal(request.error_type, request.message, settings)
    held = _leave_verification(tx, held, failure_class, now_ms, suspected=suspected)
    denial = _denial(request)
    attempt, attempts = _counted(attempt_of(tx, held), request, failure_class, denial, settings)
    tx.put_contract_attempt(attempt)
    action = action_for(failure_class, attempts, settings, tool=denial.tool, error=denial.error)
    if suspected:
        action = suspected_fatal_action(held.task_id)
    add_attempt_event(
        tx,
        held,
        EventKind.FAILURE_REPORTED,
        now_ms,
        failure_class=failure_class,
        action=action.kind,
        attempts=attempts,
        error_type=request.error_type,
        message=request.message[:MESSAGE_CHARACTERS_MAX],
    )
    operations = denied_operations(attempt, denial.tool)
    case = _FailureCase(held, handoff, failure_class, denial, operations, request.message, now_ms)
    question_id, halt_id = _act(tx, policy, case, action)
    return FailureAnswer(
        bead_id=held.task_id,
        failure_class=failure_class,
        action=action.kind,
        message=action.message,
        attempts=attempts,
        retry_in_seconds=action.retry_in_seconds,
        question_id=question_id,
        halt_id=halt_id,
    )


def _leave_verification(
    tx: Transaction, held: Assignment, failure_class: FailureClass, now_ms: int, *, suspected: bool
) -> Assignment:
    """A failure that is or may be fatal ends the verification; others wait for the verdict."""
    if failure_class != "fatal" and not suspected:
        check_no_claim(held, "bead_id")
    elif held.claim_id is not None:
        void_claim(tx, held, now_ms)
        return held._replace(claim_id=None)
    return held


def _denial(request: ReportFailureRequest) -> Denial:
    denial = find_denial(request.message, request.tool)
    tool = request.tool or (denial.tool if denial else DEFAULT_TOOL)
    error = denial.error if denial else " ".join(request.message.split())[:ERROR_CHARACTERS_MAX]
    return Denial(tool, error)


def _counted(
    attempt: ContractAttempt,
    request: ReportFailureRequest,
    failure_class: FailureClass,
    denial: Denial,
    settings: Failures,
) -> tuple[ContractAttempt, int]:
    """Count the failures in a row: of one class, and for denied permissions of one tool. A tool
    that fails in another way was permitted."""
    counts: dict[str, Any] = json.loads(attempt.denials) if attempt.denials else {}
    tools: dict[str, int] = counts.get("tools", {})
    count = counts.get("count", 0) + 1 if counts.get("class") == failure_class else 1
    if failure_class == "permission_denied":
        tools = after_denial(tools, denial.tool, request.operation)
        limits = settings.permission_denied
        count = max(tools[denial.tool], limits.max_denials if must_terminate(tools, limits) else 1)
    elif request.tool is not None:
        tools = after_success(tools, request.tool, request.operation)
    after = {"class": failure_class, "count": count, "tools": tools}
    return attempt._replace(denials=json.dumps(after)), count


def denied_operations(attempt: ContractAttempt, tool: str) -> list[str]:
    """The operations that the tool was denied."""
    tools: dict[str, int] = json.loads(attempt.denials or "{}").get("tools", {})
    return [key.partition("\n")[2] for key in tools if key.startswith(f"{tool}\n")]


def _act(
    tx: Transaction, policy: ActivePolicy, case: _FailureCase, action: FailureAction
) -> tuple[int | None, int | None]:
    """Carry out the action; the ids of the question and the halt that it created."""
    held, now_ms = case.held, case.now_ms
    contact = contact_of(case.handoff)
    question = f"{held.task_id}: {action.message}\n{case.message[:MESSAGE_CHARACTERS_MAX]}"
    match action.kind:
        case "escalate" if case.failure_class == "recoverable":
            # The worker continues; the contact is informed and may help.
            return questions.note(tx, held, contact, question, now_ms), None
        case "escalate" | "pause":
            return questions.ask(tx, held, contact, question, now_ms), None
        case "terminate" if case.failure_class == "permission_denied":
            tool, error = case.denial
            asked, _ = end_for_permission(
                tx, held, case.handoff, tool, error, case.operations, now_ms
            )
            return asked, None
        case "terminate":
            reason = f"{action.message}: {case.message[:MESSAGE_CHARACTERS_MAX]}"
            return end_worker(tx, held, case.handoff, reason, question, now_ms), None
        case "halt":
            repo, reason = case.handoff.repo_name, case.message[:MESSAGE_CHARACTERS_MAX]
            halt_id = halt_chain(tx, policy, held, repo, reason, now_ms)
            return questions.ask(tx, held, contact, question, now_ms), halt_id
    return None, None
