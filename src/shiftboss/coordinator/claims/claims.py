"""Use cases of claims: a worker says that its task is done, and the server looks.

From the claim to the verdict the server holds the attempt: no lease runs. The verdict is the
verifier's; nothing that the worker says reaches it but the name of a commit.
"""

from __future__ import annotations

import json
from typing import Any

from shiftboss.coordinator.bus.dispatch import leave_queue
from shiftboss.coordinator.idempotency import first_about, key_reused, report_digest
from shiftboss.errors import (
    DependenciesUnfinished,
    InvalidRequest,
    TaskEnded,
    UnknownHandoff,
    UnknownSwarm,
)
from shiftboss.protocol.bus import DEFAULT_SWARM
from shiftboss.protocol.ci import CiDemand
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.handoff_requests import SwarmCompleteRequest
from shiftboss.protocol.handoffs import VerificationPolicy, WorkerHandoff
from shiftboss.protocol.states import WorkerState
from shiftboss.protocol.verdicts import VerificationJob
from shiftboss.rules.claims.handoffs import (
    VERIFIER_SECONDS,
    Claim,
    Handoff,
    check_can_claim,
    check_no_claim,
)
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.tasks import Task, is_ended, is_reserved
from shiftboss.store.port import Transaction

# Who completes a task that nobody was given, and gives no name.
UNNAMED_WORKER = "unnamed"


def claim(tx: Transaction, request: SwarmCompleteRequest, key: str | None, now_ms: int) -> Claim:
    """swarm_complete: the claim that is to be verified, or the one that these words led to."""
    words = {
        "commit": request.commit,
        "files_touched": request.files_touched,
        "summary": request.summary,
        "cost": request.cost,
        "name": request.name,
        "epoch": request.epoch,
    }
    _check_no_packet(request)
    taken = tx.take_task(request.swarm_id, request.bead_id)
    if taken is None and request.swarm_id != DEFAULT_SWARM:
        raise UnknownSwarm(request.swarm_id)
    if taken is None or taken.task is None or taken.task.contract_version is None:
        raise UnknownHandoff(request.bead_id)
    task, held = taken.task, taken.assignment
    report_key = report_digest("claim", key)
    again = _first_claim(tx, request, words, report_key) or _said_before(
        tx, request.swarm_id, request.bead_id, words, request.name, request.epoch
    )
    if again is not None:
        return again
    if is_ended(task):
        raise TaskEnded(task.task_id, task.status)
    held = held or _open_attempt(tx, task, request.name or UNNAMED_WORKER, now_ms)
    version = request.contract_version
    held = check_can_claim(held, request.bead_id, request.name, request.epoch, version)
    return _make(tx, held, words, report_key, now_ms)


def make_claim(
    tx: Transaction, held: Assignment, words: dict[str, Any], report_key: bytes | None, now_ms: int
) -> Claim:
    """For an attempt with a contract, of which the caller has checked that it may claim."""
    again = _said_before(tx, held.swarm_id, held.task_id, words, held.worker, held.epoch)
    return again or _make(tx, held, words, report_key, now_ms)


def _check_no_packet(request: SwarmCompleteRequest) -> None:
    """A packet's own report says more: whether its tests and its review have passed."""
    if is_reserved(request.bead_id):
        raise InvalidRequest(
            f"bead_id: {request.bead_id} is a packet, which completes by its own report",
            field="bead_id",
            hint="POST /swarm/{swarm_id}/complete, or the tool swarm_packet_complete",
        )


def _make(
    tx: Transaction, held: Assignment, words: dict[str, Any], report_key: bytes | None, now_ms: int
) -> Claim:
    assert held.contract_version is not None
    handoff = tx.handoff(held.swarm_id, held.task_id)
    if handoff is None:
        raise UnknownHandoff(held.task_id)
    check_no_claim(held, "bead_id")
    _check_dependencies(tx, handoff)
    last = tx.last_claim(held.swarm_id, held.task_id)
    made = Claim(
        swarm_id=held.swarm_id,
        task_id=held.task_id,
        claim_id=last.claim_id + 1 if last else 1,
        epoch=held.epoch,
        worker=held.worker,
        state="waiting",
        contract_version=held.contract_version,
        words=json.dumps(words),
        asked_at_ms=now_ms,
    )
    tx.put_claim(made)
    tx.save_assignment(
        held._replace(
            state=WorkerState.VERIFYING,
            claim_id=made.claim_id,
            updated_at_ms=now_ms,
            lease_expires_at_ms=None,
        )
    )
    tx.add_event(
        held.swarm_id,
        EventKind.CLAIM_MADE,
        now_ms,
        {**about(made), "contract_version": made.contract_version, "commit": words["commit"]},
        task_id=held.task_id,
        report_key=report_key,
    )
    return made


def about(claim: Claim) -> dict[str, Any]:
    return {
        "bead_id": claim.task_id,
        "worker": claim.worker,
        "epoch": claim.epoch,
        "claim_id": claim.claim_id,
    }


def _first_claim(
    tx: Transaction,
    request: SwarmCompleteRequest,
    words: dict[str, Any],
    report_key: bytes | None,
) -> Claim | None:
    """The claim that was made under this key."""
    first = first_about(
        tx, request.swarm_id, request.bead_id, report_key, request.name, request.epoch
    )
    if first is None:
        return None
    claim_id = json.loads(first.data)["claim_id"]
    made = tx.claim(request.swarm_id, request.bead_id, claim_id)
    if made is None or not _same_words(made, words):
        raise key_reused()
    return made


def claimed_by(claim: Claim) -> str | None:
    """The name that the claim gave. None: it gave none, and may be anybody's."""
    name: str | None = json.loads(claim.words).get("name")
    return name


def is_of_holder(claim: Claim) -> bool:
    """Whether the claim said whose it is. The documents' own call needs neither name nor epoch, so
    anybody who knows the task can make it; then it must not count against the holder."""
    said = json.loads(claim.words)
    names_nobody = "name" in said and said["name"] is None and said["epoch"] is None
    return not names_nobody or claim.worker == UNNAMED_WORKER


def _same_words(claim: Claim, words: dict[str, Any]) -> bool:
    """What is claimed, whoever claims it. What it has cost goes on growing meanwhile."""
    return _claimed(json.loads(claim.words)) == _claimed(words)


def _claimed(words: dict[str, Any]) -> dict[str, Any]:
    return {key: words[key] for key in words.keys() - {"cost", "name", "epoch"}}


def _said_before(
    tx: Transaction,
    swarm_id: str,
    task_id: str,
    words: dict[str, Any],
    name: str | None,
    epoch: int | None,
) -> Claim | None:
    """The newest claim, if it has these words and its verdict is still to come or is not known to
    its worker yet. Who has heard a refusal and says the same again wants another look."""
    last = tx.last_claim(swarm_id, task_id)
    if last is None or not _same_words(last, words):
        return None
    if name not in (None, last.worker) or epoch not in (None, last.epoch):
        return None
    current = tx.assignment(swarm_id, task_id)
    if current is not None and current.epoch != last.epoch:
        return None
    unheard = last.state == "refused" and last.heard_at_ms is None
    return last if unheard or last.state in ("waiting", "taken", "accepted") else None


def unheard_refusal(tx: Transaction, held: Assignment) -> Claim | None:
    """The refusal of this attempt that its worker was not told of."""
    if held.contract_version is None or held.claim_id is not None:
        return None
    last = tx.last_claim(held.swarm_id, held.task_id)
    if last is None or last.epoch != held.epoch:
        return None
    return last if last.state == "refused" and last.heard_at_ms is None else None


def _check_dependencies(tx: Transaction, handoff: Handoff) -> None:
    """What the contract says was done before must be done, by our own record."""
    contract = WorkerHandoff.model_validate_json(handoff.body).contract
    unfinished = [
        one
        for one in contract.dependencies_completed
        if (task := tx.task(handoff.swarm_id, one)) is None or task.status != "done"
    ]
    unfinished += tx.unfinished_dependencies(handoff.swarm_id, handoff.task_id)
    if unfinished:
        raise DependenciesUnfinished(handoff.task_id, sorted(set(unfinished)))


def _open_attempt(tx: Transaction, task: Task, name: str, now_ms: int) -> Assignment | None:
    """Somebody did the task whom nobody gave it, as a coordinator's own helper does: the claim
    opens the attempt. Not for a task that has failed, which has to be submitted again."""
    if task.status not in ("open", "queued"):
        return None
    if task.status == "queued":
        leave_queue(tx, task)
    epoch = task.epoch + 1
    tx.save_task(task._replace(status="active", epoch=epoch, worker=name, updated_at_ms=now_ms))
    attempt = Assignment(
        swarm_id=task.swarm_id,
        task_id=task.task_id,
        epoch=epoch,
        state=WorkerState.EXECUTING,
        packet_id=None,
        worker=name,
        worktree="",
        steps_total=0,
        steps_completed=0,
        retries_open=0,
        registered_at_ms=now_ms,
        updated_at_ms=now_ms,
        contract_version=task.contract_version,
    )
    tx.put_assignment(attempt)
    tx.add_event(
        task.swarm_id,
        EventKind.TASK_STARTED,
        now_ms,
        {"bead_id": task.task_id, "worker": name, "epoch": epoch, "lease_expires_at": None},
        task_id=task.task_id,
    )
    return attempt


# Use cases of verifiers: take a claim, and keep it while looking at it.


# So many accepted commits of a repository are told to a verifier, the newest.
ACCOUNTED_MAX = 200


def take(tx: Transaction, found: Claim, verifier: str, now_ms: int) -> VerificationJob | None:
    """A claim that was found open, for a verifier that must be heard of again in time. None: the
    claim has changed meanwhile, another verifier was faster."""
    if tx.take_swarm(found.swarm_id) is None:
        return None
    if tx.claim(found.swarm_id, found.task_id, found.claim_id) != found:
        return None
    handoff = tx.handoff(found.swarm_id, found.task_id, found.contract_version)
    assert handoff is not None, "a claim names a version that is there"
    until_ms = now_ms + VERIFIER_SECONDS * 1000
    tx.put_claim(found._replace(state="taken", taken_by=verifier, taken_until_ms=until_ms))
    return job_of(tx, found, handoff)


def job_of(tx: Transaction, claim: Claim, handoff: Handoff) -> VerificationJob:
    words = json.loads(claim.words)
    return VerificationJob(
        swarm_id=claim.swarm_id,
        bead_id=claim.task_id,
        epoch=claim.epoch,
        claim_id=claim.claim_id,
        repo=handoff.repo,
        base_commit=handoff.base_commit,
        branch=handoff.branch,
        target=handoff.target,
        target_base=handoff.target_base,
        # Without a target nothing is somebody else's, whatever it was accepted for.
        accounted_commits=tx.newest_accepted_commits(handoff.repo_id, ACCOUNTED_MAX)
        if handoff.target is not None
        else [],
        commit=words["commit"],
        files_touched=words["files_touched"],
        contract=WorkerHandoff.model_validate_json(handoff.body).contract,
        contract_version=handoff.version,
        contract_hash=handoff.hash,
        policy=VerificationPolicy.model_validate_json(handoff.policy),
        waivers=tx.waivers(claim.swarm_id, claim.task_id),
        ci=CiDemand.model_validate_json(handoff.ci) if handoff.ci else None,
    )


def renew(
    tx: Transaction, swarm_id: str, task_id: str, claim_id: int, verifier: str, now_ms: int
) -> bool:
    """The verifier is still at it. False: its claim is over, or another's."""
    if tx.take_swarm(swarm_id) is None:
        return False
    held = tx.claim(swarm_id, task_id, claim_id)
    if held is None or held.state != "taken" or held.taken_by != verifier:
        return False
    return tx.put_claim(held._replace(taken_until_ms=now_ms + VERIFIER_SECONDS * 1000))
