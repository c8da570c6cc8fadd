"""Use cases of scope requests: a worker asks for more files, a rule or the operator decides.

A grant creates a new version of the contract. A worker can never widen its own contract.
"""

from __future__ import annotations

from typing import Any

from shiftboss.coordinator.bus import questions
from shiftboss.coordinator.bus.dispatch import take_swarm
from shiftboss.coordinator.handoffs import ownership
from shiftboss.coordinator.handoffs.spawn import put_in_force
from shiftboss.coordinator.swarms.swarms import check_exists
from shiftboss.errors import (
    AlreadyAnswered,
    InvalidRequest,
    TaskEnded,
    UnknownHandoff,
    UnknownQuestion,
)
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.handoff_requests import (
    DecideScopeRequest,
    RequestScopeRequest,
    ScopeList,
    ScopeView,
)
from shiftboss.protocol.handoffs import (
    PATHS_MAX,
    VerificationPolicy,
    WorkerHandoff,
    canonical_json,
    handoff_hash,
)
from shiftboss.protocol.questions import AnswerQuestionRequest
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.claims.claims import check_no_claim
from shiftboss.rules.handoffs.handoffs import Handoff, Reservation, ScopeRequest
from shiftboss.rules.handoffs.new_contracts import normalised_paths
from shiftboss.rules.paths.command_paths import CommandReferences
from shiftboss.rules.paths.patterns import Scope
from shiftboss.rules.paths.scope_grants import why_not_granted
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.tasks import check_holds, is_ended
from shiftboss.store.port import Transaction

LISTED_MAX = 200


def request_scope(tx: Transaction, request: RequestScopeRequest, now_ms: int) -> ScopeView:
    """Grant at once where a rule allows it; else ask the contact and block the worker."""
    take_swarm(tx, request.swarm_id, now_ms)
    handoff = _handoff_in_force(tx, request.swarm_id, request.bead_id)
    current = tx.assignment(request.swarm_id, request.bead_id)
    held = check_holds(current, request.bead_id, request.name, request.epoch)
    check_no_claim(held, "bead_id")
    paths = normalised_paths(request.paths, "paths")
    earlier = _earlier_request(tx, held, handoff, paths, request.reason)
    if earlier is not None:
        return view(earlier, handoff.version)
    wanted = Reservation(request.swarm_id, request.bead_id, handoff.repo_id, paths)
    tx.hold_repo(handoff.repo_id)
    holders = ownership.holders(tx, wanted)
    row = ScopeRequest(
        swarm_id=request.swarm_id,
        request_id=0,
        task_id=request.bead_id,
        epoch=held.epoch,
        worker=held.worker,
        paths=paths,
        reason=request.reason,
        state="open",
        asked_at_ms=now_ms,
    )
    objection = _objection_to_grant(handoff, paths, holders)
    if objection is None:
        return _grant_by_rule(tx, row, handoff, now_ms)
    return _ask_contact(tx, row, held, handoff, holders, objection, now_ms)


def _earlier_request(
    tx: Transaction, held: Assignment, handoff: Handoff, paths: list[str], reason: str
) -> ScopeRequest | None:
    """The same request from before, unless it was refused or its grant was undone."""
    owned = WorkerHandoff.model_validate_json(handoff.body).contract.files_owned
    repeatable_states = ("open", "granted") if set(paths) <= set(owned) else ("open",)
    content = (held.task_id, held.epoch, paths, reason)
    for row in tx.scope_requests(held.swarm_id, LISTED_MAX, only_open=False):
        same = (row.task_id, row.epoch, row.paths, row.reason) == content
        if same and row.state in repeatable_states:
            return row
    return None


def _objection_to_grant(
    handoff: Handoff, paths: list[str], holders: list[dict[str, Any]]
) -> str | None:
    """Why the request cannot be granted without asking; None if it can."""
    contract = WorkerHandoff.model_validate_json(handoff.body).contract
    policy = VerificationPolicy.model_validate_json(handoff.policy)
    if holders:
        return f"{holders[0]['bead_id']} owns {holders[0]['owned']}"
    if policy.scope_requests == "ask":
        return "the policy requires a decision"
    references = CommandReferences(contract.success_criteria, policy.setup)
    for path in paths:
        reason = why_not_granted(path, contract.files_readonly, references)
        if reason is not None:
            return f"{path} {reason}"
    return None


def _grant_by_rule(tx: Transaction, row: ScopeRequest, handoff: Handoff, now_ms: int) -> ScopeView:
    granted = row._replace(
        state="granted", decided_at_ms=now_ms, decision="by rule: no other task owns it"
    )
    granted = granted._replace(request_id=tx.add_scope_request(granted))
    version = _widen(tx, handoff, granted, now_ms)
    _add_event(tx, granted, EventKind.SCOPE_DECIDED, now_ms)
    return view(granted, version)


def _ask_contact(
    tx: Transaction,
    row: ScopeRequest,
    held: Assignment,
    handoff: Handoff,
    holders: list[dict[str, Any]],
    objection: str,
    now_ms: int,
) -> ScopeView:
    contact = WorkerHandoff.model_validate_json(handoff.body).escalation.blocked_contact
    # The swarm is locked, so no other request takes this number.
    newest = tx.scope_requests(row.swarm_id, 1, only_open=False)
    number = f"{newest[0].request_id + 1 if newest else 1} --swarm {row.swarm_id}"
    question = (
        f"{held.worker} asks for {', '.join(row.paths)}, which the contract of {row.task_id} does "
        f"not own: {row.reason} (not granted by rule: {objection}). Decide with "
        f"`shiftboss scope grant {number}` or `shiftboss scope refuse {number}`."
    )
    asked = row._replace(question_id=questions.ask(tx, held, contact, question, now_ms))
    asked = asked._replace(request_id=tx.add_scope_request(asked))
    _add_event(tx, asked, EventKind.SCOPE_REQUESTED, now_ms)
    return view(asked, handoff.version, holders)


def decide(tx: Transaction, request: DecideScopeRequest, now_ms: int) -> ScopeView:
    """The operator decides. A path that another task owns cannot be granted while it is in
    flight."""
    take_swarm(tx, request.swarm_id, now_ms)
    row = tx.scope_request(request.swarm_id, request.request_id)
    if row is None:
        raise UnknownQuestion(f"Unknown scope request: {request.request_id}", field="request_id")
    state = "granted" if request.granted else "refused"
    if row.state != "open":
        if row.state == state:
            return view(row, _handoff_in_force(tx, row.swarm_id, row.task_id).version)
        raise AlreadyAnswered(
            f"scope request {row.request_id} was {row.state}; nothing was changed",
            field="request_id",
        )
    handoff = _handoff_in_force(tx, row.swarm_id, row.task_id)
    if request.granted:
        _check_in_flight(tx, row)
    decided = row._replace(state=state, decided_at_ms=now_ms, decision=request.decision)
    version = _widen(tx, handoff, decided, now_ms) if request.granted else handoff.version
    tx.decide_scope_request(decided)
    _add_event(tx, decided, EventKind.SCOPE_DECIDED, now_ms)
    _answer_question(tx, decided, version, now_ms)
    if request.granted:
        changed = f"The contract has version {version} now: it owns {', '.join(decided.paths)}"
        questions.answer_disputes(tx, row.swarm_id, row.task_id, changed[:2000], now_ms)
    return view(decided, version)


def _check_in_flight(tx: Transaction, row: ScopeRequest) -> None:
    """A task that has ended would own the paths forever."""
    task = tx.task(row.swarm_id, row.task_id)
    if task is not None and is_ended(task):
        raise TaskEnded(task.task_id, task.status)
    attempt = tx.assignment(row.swarm_id, row.task_id)
    if attempt is not None and attempt.state is WorkerState.COMPLETE:
        raise TaskEnded(row.task_id, "complete")


def _answer_question(tx: Transaction, row: ScopeRequest, version: int, now_ms: int) -> None:
    """Answer the question that the worker waits on, if it is still open."""
    question = tx.question(row.swarm_id, row.question_id) if row.question_id else None
    if question is None or question.answer is not None:
        return
    text = f"Scope request {row.request_id} was {row.state}"
    if row.state == "granted":
        text += f"; the contract has version {version} now"
    if row.decision:
        text += f": {row.decision}"
    answer = AnswerQuestionRequest(
        swarm_id=row.swarm_id, question_id=question.question_id, answer=text
    )
    questions.put_answer(tx, answer, now_ms)


def _widen(tx: Transaction, handoff: Handoff, row: ScopeRequest, now_ms: int) -> int:
    """Put a version of the contract in force that owns the paths, too; its number."""
    body = WorkerHandoff.model_validate_json(handoff.body)
    owned = list(dict.fromkeys([*body.contract.files_owned, *row.paths]))
    readonly = [path for path in body.contract.files_readonly if path not in row.paths]
    _check_wider(owned, readonly, row)
    contract = body.contract.model_copy(update={"files_owned": owned, "files_readonly": readonly})
    wider = body.model_copy(update={"contract": contract})
    version = handoff.version + 1
    put_in_force(
        tx,
        handoff._replace(
            version=version,
            hash=handoff_hash(wider),
            body=canonical_json(wider).decode(),
            reason=f"scope request {row.request_id} of {row.worker}: {row.reason}",
            created_at_ms=now_ms,
        ),
        now_ms,
        "paths",
    )
    return version


def _check_wider(owned: list[str], readonly: list[str], row: ScopeRequest) -> None:
    """Refuse a grant that the verifier would ignore, or that makes the contract invalid."""
    if len(owned) > PATHS_MAX:
        raise InvalidRequest(f"paths: a contract owns at most {PATHS_MAX} of them", field="paths")
    covered = next((path for path in row.paths if Scope(readonly).covers(path)), None)
    if covered is not None:
        raise InvalidRequest(
            f"paths: {covered} matches a pattern of files_readonly, which takes precedence",
            field="paths",
            hint="replace the contract (handoff spawn with --replace)",
        )


def listing(tx: Transaction, swarm_id: str, *, only_open: bool) -> ScopeList:
    check_exists(tx, swarm_id)
    rows = tx.scope_requests(swarm_id, LISTED_MAX, only_open=only_open)
    return ScopeList(requests=[view(_with_current_state(tx, row), None) for row in rows])


def _with_current_state(tx: Transaction, row: ScopeRequest) -> ScopeRequest:
    """An open request is over when its question was withdrawn: no worker waits for it."""
    if row.state != "open":
        return row
    question = tx.question(row.swarm_id, row.question_id) if row.question_id else None
    is_waiting = question is not None and question.answer is None
    return row if is_waiting else row._replace(state="over")


def view(
    row: ScopeRequest, version: int | None, holders: list[dict[str, Any]] | None = None
) -> ScopeView:
    return ScopeView(
        request_id=row.request_id,
        bead_id=row.task_id,
        worker=row.worker,
        epoch=row.epoch,
        paths=row.paths,
        reason=row.reason,
        status=row.state,
        asked_at=row.asked_at_ms,
        decided_at=row.decided_at_ms,
        decision=row.decision,
        contract_version=version,
        holders=holders or [],
    )


def _handoff_in_force(tx: Transaction, swarm_id: str, task_id: str) -> Handoff:
    handoff = tx.handoff(swarm_id, task_id)
    if handoff is None:
        raise UnknownHandoff(task_id)
    return handoff


def _add_event(tx: Transaction, row: ScopeRequest, kind: EventKind, now_ms: int) -> None:
    tx.add_event(
        row.swarm_id,
        kind,
        now_ms,
        {
            "request_id": row.request_id,
            "bead_id": row.task_id,
            "worker": row.worker,
            "epoch": row.epoch,
            "paths": row.paths,
            "reason": row.reason,
            "state": row.state,
        },
        task_id=row.task_id,
    )
