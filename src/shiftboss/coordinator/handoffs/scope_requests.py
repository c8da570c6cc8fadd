"""Use cases of scope changes: a worker asks for more files, a rule or the operator decides.

Either way it changes, the contract gets a new version. A worker can never widen its own.
"""

from __future__ import annotations

from typing import Any

from shiftboss.coordinator.bus import questions
from shiftboss.coordinator.bus.dispatch import take_swarm
from shiftboss.coordinator.handoffs import ownership
from shiftboss.coordinator.handoffs.spawn import put_in_force
from shiftboss.coordinator.handoffs.spawn_checks import normalised_paths
from shiftboss.coordinator.swarms.swarms import existing
from shiftboss.errors import (
    AlreadyAnswered,
    InvalidRequest,
    TaskEnded,
    UnknownHandoff,
    UnknownQuestion,
)
from shiftboss.protocol.bus import DEFAULT_SWARM, AnswerQuestionRequest
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.handoff_requests import (
    DecideScopeRequest,
    RequestScopeRequest,
    ScopeList,
    ScopeView,
    WaiveAnswer,
    WaiveRequest,
)
from shiftboss.protocol.handoffs import (
    PATHS_MAX,
    VerificationPolicy,
    WorkerHandoff,
    canonical_json,
    handoff_hash,
)
from shiftboss.protocol.states import WorkerState
from shiftboss.protocol.verdicts import Waiver
from shiftboss.rules.claims.handoffs import Handoff, Reservation, ScopeRequest, check_no_claim
from shiftboss.rules.paths.command_paths import CommandReferences
from shiftboss.rules.paths.patterns import Scope
from shiftboss.rules.paths.scope_grants import why_not_granted
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.tasks import check_holds, is_ended
from shiftboss.store.port import Transaction

LISTED_MAX = 200


def request_scope(tx: Transaction, request: RequestScopeRequest, now_ms: int) -> ScopeView:
    """Granted at once where a rule allows it; else the contact is asked and the worker waits."""
    take_swarm(tx, request.swarm_id, now_ms)
    handoff = _in_force(tx, request.swarm_id, request.bead_id)
    found = tx.assignment(request.swarm_id, request.bead_id)
    held = check_holds(found, request.bead_id, request.name, request.epoch)
    check_no_claim(held, "bead_id")
    paths = normalised_paths(request.paths, "paths")
    again = _asked_before(tx, held, handoff, paths, request.reason)
    if again is not None:
        return view(again, handoff.version)
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
    why_not = _why_not_at_once(handoff, paths, holders)
    if why_not is None:
        return _granted_at_once(tx, row, handoff, now_ms)
    return _asked(tx, row, held, handoff, holders, why_not, now_ms)


def _asked_before(
    tx: Transaction, held: Assignment, handoff: Handoff, paths: list[str], reason: str
) -> ScopeRequest | None:
    """The same words again are the same request, unless it was refused, or its grant is undone."""
    owned = WorkerHandoff.model_validate_json(handoff.body).contract.files_owned
    standing = ("open", "granted") if set(paths) <= set(owned) else ("open",)
    wanted = (held.task_id, held.epoch, paths, reason)
    for row in tx.scope_requests(held.swarm_id, LISTED_MAX, only_open=False):
        if (row.task_id, row.epoch, row.paths, row.reason) == wanted and row.state in standing:
            return row
    return None


def _why_not_at_once(
    handoff: Handoff, paths: list[str], holders: list[dict[str, Any]]
) -> str | None:
    """A rule may give away what nobody owns, where the policy lets it, and the rule itself."""
    contract = WorkerHandoff.model_validate_json(handoff.body).contract
    policy = VerificationPolicy.model_validate_json(handoff.policy)
    if holders:
        return f"{holders[0]['bead_id']} owns {holders[0]['owned']}"
    if policy.scope_requests == "ask":
        return "the policy wants to be asked"
    references = CommandReferences(contract.success_criteria, policy.setup)
    for path in paths:
        reason = why_not_granted(path, contract.files_readonly, references)
        if reason is not None:
            return f"{path} {reason}"
    return None


def _granted_at_once(
    tx: Transaction, row: ScopeRequest, handoff: Handoff, now_ms: int
) -> ScopeView:
    granted = row._replace(
        state="granted", decided_at_ms=now_ms, decision="by rule: nobody else owns it"
    )
    granted = granted._replace(request_id=tx.add_scope_request(granted))
    version = _widen(tx, handoff, granted, now_ms)
    _tell(tx, granted, EventKind.SCOPE_DECIDED, now_ms)
    return view(granted, version)


def _asked(
    tx: Transaction,
    row: ScopeRequest,
    held: Assignment,
    handoff: Handoff,
    holders: list[dict[str, Any]],
    why: str,
    now_ms: int,
) -> ScopeView:
    contact = WorkerHandoff.model_validate_json(handoff.body).escalation.blocked_contact
    question = (
        f"{held.worker} asks for {', '.join(row.paths)} beside the contract of {row.task_id}: "
        f"{row.reason} (not granted by rule: {why}). Decide with `shiftboss scope grant|refuse`."
    )
    asked = row._replace(question_id=questions.ask(tx, held, contact, question, now_ms))
    asked = asked._replace(request_id=tx.add_scope_request(asked))
    _tell(tx, asked, EventKind.SCOPE_REQUESTED, now_ms)
    return view(asked, handoff.version, holders)


def decide(tx: Transaction, request: DecideScopeRequest, now_ms: int) -> ScopeView:
    """The operator's word. A path that another task owns cannot be granted before that is done."""
    take_swarm(tx, request.swarm_id, now_ms)
    row = tx.scope_request(request.swarm_id, request.request_id)
    if row is None:
        raise UnknownQuestion(f"Unknown scope request: {request.request_id}", field="request_id")
    state = "granted" if request.granted else "refused"
    if row.state != "open":
        if row.state == state:
            return view(row, _in_force(tx, row.swarm_id, row.task_id).version)
        raise AlreadyAnswered(
            f"scope request {row.request_id} was {row.state}; nothing was changed",
            field="request_id",
        )
    handoff = _in_force(tx, row.swarm_id, row.task_id)
    if request.granted:
        _check_in_flight(tx, row)
    decided = row._replace(state=state, decided_at_ms=now_ms, decision=request.decision)
    version = _widen(tx, handoff, decided, now_ms) if request.granted else handoff.version
    tx.decide_scope_request(decided)
    _tell(tx, decided, EventKind.SCOPE_DECIDED, now_ms)
    _answer_question(tx, decided, version, now_ms)
    return view(decided, version)


def _check_in_flight(tx: Transaction, row: ScopeRequest) -> None:
    """A task that is over would own the paths for ever."""
    task = tx.task(row.swarm_id, row.task_id)
    if task is not None and is_ended(task):
        raise TaskEnded(task.task_id, task.status)
    attempt = tx.assignment(row.swarm_id, row.task_id)
    if attempt is not None and attempt.state is WorkerState.COMPLETE:
        raise TaskEnded(row.task_id, "complete")


def _answer_question(tx: Transaction, row: ScopeRequest, version: int, now_ms: int) -> None:
    """The worker waits for it, unless its attempt is over."""
    question = tx.question(row.swarm_id, row.question_id) if row.question_id else None
    if question is None or question.answer is not None:
        return
    words = f"Scope request {row.request_id} was {row.state}"
    if row.state == "granted":
        words += f"; the contract has version {version} now"
    if row.decision:
        words += f": {row.decision}"
    answer = AnswerQuestionRequest(
        swarm_id=row.swarm_id, question_id=question.question_id, answer=words
    )
    questions.put_answer(tx, answer, now_ms)


def _widen(tx: Transaction, handoff: Handoff, row: ScopeRequest, now_ms: int) -> int:
    """A new version of the contract that owns the paths too."""
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
    """A grant that the verifier would not honour, or a contract that cannot be, is none."""
    if len(owned) > PATHS_MAX:
        raise InvalidRequest(f"paths: a contract owns at most {PATHS_MAX} of them", field="paths")
    covered = next((one for one in row.paths if Scope(readonly).covers(one)), None)
    if covered is not None:
        raise InvalidRequest(
            f"paths: {covered} is covered by a pattern of files_readonly, which wins",
            field="paths",
            hint="replace the contract: `shiftboss handoff spawn --replace`",
        )


def waive(tx: Transaction, request: WaiveRequest, now_ms: int) -> WaiveAnswer:
    """The operator's: a check of the task need not pass. The receipt will say so."""
    if request.check == "commit":
        raise InvalidRequest(
            "check: that there is a commit cannot be waived, for it is what is accepted",
            field="check",
            hint="claim a commit that is in the repository, by its full name",
        )
    take_swarm(tx, request.swarm_id, now_ms)
    _in_force(tx, request.swarm_id, request.bead_id)
    waiver = Waiver(
        check=request.check,
        subject=request.subject,
        reason=request.reason,
        granted_by=request.granted_by,
    )
    tx.put_waiver(request.swarm_id, request.bead_id, waiver, now_ms)
    tx.add_event(
        request.swarm_id,
        EventKind.WAIVER_GRANTED,
        now_ms,
        {"bead_id": request.bead_id, **waiver.model_dump()},
        task_id=request.bead_id,
    )
    return WaiveAnswer(
        success=True, bead_id=request.bead_id, check=request.check, subject=request.subject
    )


def listing(tx: Transaction, swarm_id: str, *, only_open: bool) -> ScopeList:
    if swarm_id != DEFAULT_SWARM:
        existing(tx, swarm_id)
    found = tx.scope_requests(swarm_id, LISTED_MAX, only_open=only_open)
    return ScopeList(requests=[view(_as_it_stands(tx, one), None) for one in found])


def _as_it_stands(tx: Transaction, row: ScopeRequest) -> ScopeRequest:
    """Nobody waits for the decision when the attempt that asked has ended."""
    if row.state != "open":
        return row
    held = tx.assignment(row.swarm_id, row.task_id)
    ended = (WorkerState.COMPLETE, WorkerState.FAILED)
    goes_on = held is not None and held.epoch == row.epoch and held.state not in ended
    return row if goes_on else row._replace(state="over")


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


def _in_force(tx: Transaction, swarm_id: str, task_id: str) -> Handoff:
    handoff = tx.handoff(swarm_id, task_id)
    if handoff is None:
        raise UnknownHandoff(task_id)
    return handoff


def _tell(tx: Transaction, row: ScopeRequest, kind: EventKind, now_ms: int) -> None:
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
