"""Use cases of claims: a worker claims that its task is done, a verifier takes the claim.

From the claim to the verdict the server holds the attempt: no lease runs. The verifier decides; of
the worker's report it only gets the commit and the list of touched files.
"""

from __future__ import annotations

import json
from typing import Any

from shiftboss.coordinator.bus.dispatch import leave_queue
from shiftboss.coordinator.contract.locks import check_has_lock
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
from shiftboss.protocol.claims.verdicts import VerificationJob
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.handoff_requests import SwarmCompleteRequest
from shiftboss.protocol.handoffs import VerificationPolicy, WorkerHandoff
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.claims.claims import (
    VERIFIER_SECONDS,
    Claim,
    check_can_claim,
    check_no_claim,
)
from shiftboss.rules.handoffs.handoffs import Handoff
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.tasks import Task, is_ended, is_reserved, next_epoch
from shiftboss.store.port import Transaction

# The worker of a claim without a name, on a task that was never handed out.
UNNAMED_WORKER = "unnamed"
# How many accepted commits of a repository, the newest, a verifier gets.
ACCOUNTED_COMMITS_MAX = 200
# How many rejections of a task, the newest, a claim is compared with.
REJECTIONS_MAX = 20


def claim(tx: Transaction, request: SwarmCompleteRequest, key: str | None, now_ms: int) -> Claim:
    """swarm_complete: the claim to verify, or the one that the same request led to before."""
    content = {
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
    earlier = _first_claim(tx, request, content, report_key) or _unresolved_claim(
        tx, request.swarm_id, request.bead_id, content, request.name, request.epoch
    )
    if earlier is not None:
        return earlier
    if is_ended(task):
        raise TaskEnded(task.task_id, task.status)
    held = held or _open_attempt(tx, task, request.name or UNNAMED_WORKER, now_ms)
    version = request.contract_version
    held = check_can_claim(held, request.bead_id, request.name, request.epoch, version)
    return _add_claim(tx, held, content, report_key, now_ms)


def make_claim(
    tx: Transaction,
    held: Assignment,
    content: dict[str, Any],
    report_key: bytes | None,
    now_ms: int,
) -> Claim:
    """For an attempt with a contract. The caller has checked that it may claim."""
    earlier = _unresolved_claim(tx, held.swarm_id, held.task_id, content, held.worker, held.epoch)
    return earlier or _add_claim(tx, held, content, report_key, now_ms)


def _check_no_packet(request: SwarmCompleteRequest) -> None:
    """Packets have their own report, which includes the results of tests and review."""
    if is_reserved(request.bead_id):
        raise InvalidRequest(
            f"bead_id: {request.bead_id} is a packet, which has its own report",
            field="bead_id",
            hint="POST /swarm/{swarm_id}/complete, or the tool swarm_packet_complete",
        )


def _add_claim(
    tx: Transaction,
    held: Assignment,
    content: dict[str, Any],
    report_key: bytes | None,
    now_ms: int,
) -> Claim:
    assert held.contract_version is not None
    handoff = tx.handoff(held.swarm_id, held.task_id)
    if handoff is None:
        raise UnknownHandoff(held.task_id)
    check_no_claim(held, "bead_id")
    _check_dependencies(tx, handoff)
    last = tx.last_claim(held.swarm_id, held.task_id)
    claim = Claim(
        swarm_id=held.swarm_id,
        task_id=held.task_id,
        claim_id=last.claim_id + 1 if last else 1,
        epoch=held.epoch,
        worker=held.worker,
        state="waiting",
        contract_version=held.contract_version,
        words=json.dumps(content | {"actor": tx.actor.name}),
        asked_at_ms=now_ms,
    )
    tx.put_claim(claim)
    tx.save_assignment(
        held._replace(
            state=WorkerState.VERIFYING,
            claim_id=claim.claim_id,
            updated_at_ms=now_ms,
            lease_expires_at_ms=None,
        )
    )
    tx.add_event(
        held.swarm_id,
        EventKind.CLAIM_MADE,
        now_ms,
        {
            **event_data(claim),
            "contract_version": claim.contract_version,
            "commit": content["commit"],
        },
        task_id=held.task_id,
        report_key=report_key,
    )
    return claim


def event_data(claim: Claim) -> dict[str, Any]:
    return {
        "bead_id": claim.task_id,
        "worker": claim.worker,
        "epoch": claim.epoch,
        "claim_id": claim.claim_id,
    }


def _first_claim(
    tx: Transaction,
    request: SwarmCompleteRequest,
    content: dict[str, Any],
    report_key: bytes | None,
) -> Claim | None:
    """The claim that was made with this key."""
    first = first_about(
        tx, request.swarm_id, request.bead_id, report_key, request.name, request.epoch
    )
    if first is None:
        return None
    claim_id = json.loads(first.data)["claim_id"]
    claim = tx.claim(request.swarm_id, request.bead_id, claim_id)
    if claim is None or not _has_content(claim, content):
        raise key_reused()
    return claim


def claimed_by(claim: Claim) -> str | None:
    """The name that the claim gave; None if it gave none and may come from anybody."""
    name: str | None = json.loads(claim.words).get("name")
    return name


def is_of_holder(claim: Claim) -> bool:
    """Whether the claim names its worker. swarm_complete requires neither name nor epoch, so
    everybody who knows the task can call it; such a claim must not count against the holder."""
    content = json.loads(claim.words)
    names_nobody = "name" in content and content["name"] is None and content["epoch"] is None
    return not names_nobody or claim.worker == UNNAMED_WORKER


def _has_content(claim: Claim, content: dict[str, Any]) -> bool:
    """Whether the content is the same, apart from the claimants and the cost, which may grow."""
    return _comparable(json.loads(claim.words)) == _comparable(content)


def _comparable(content: dict[str, Any]) -> dict[str, Any]:
    return {key: content[key] for key in content.keys() - {"cost", "name", "epoch", "actor"}}


def _unresolved_claim(
    tx: Transaction,
    swarm_id: str,
    task_id: str,
    content: dict[str, Any],
    name: str | None,
    epoch: int | None,
) -> Claim | None:
    """The newest claim, if it has the same content and its worker does not know the verdict yet. A
    worker that knows the refusal and repeats its claim asks for another verification."""
    last = tx.last_claim(swarm_id, task_id)
    if last is None or not _has_content(last, content):
        return None
    if name not in (None, last.worker) or epoch not in (None, last.epoch):
        return None
    current = tx.assignment(swarm_id, task_id)
    if current is not None and current.epoch != last.epoch:
        return None
    unheard = last.state == "refused" and last.heard_at_ms is None
    return last if unheard or last.state in ("waiting", "taken", "accepted") else None


def undelivered_refusal(tx: Transaction, held: Assignment) -> Claim | None:
    """The refusal of this attempt that its worker does not know yet."""
    if held.contract_version is None or held.claim_id is not None:
        return None
    last = tx.last_claim(held.swarm_id, held.task_id)
    if last is None or last.epoch != held.epoch:
        return None
    return last if last.state == "refused" and last.heard_at_ms is None else None


def _check_dependencies(tx: Transaction, handoff: Handoff) -> None:
    """The dependencies of the contract must be done according to the store."""
    contract = WorkerHandoff.model_validate_json(handoff.body).contract
    unfinished = [
        task_id
        for task_id in contract.dependencies_completed
        if (task := tx.task(handoff.swarm_id, task_id)) is None or task.status != "done"
    ]
    unfinished += tx.unfinished_dependencies(handoff.swarm_id, handoff.task_id)
    if unfinished:
        raise DependenciesUnfinished(handoff.task_id, sorted(set(unfinished)))


def _open_attempt(tx: Transaction, task: Task, name: str, now_ms: int) -> Assignment | None:
    """Open an attempt for a claim on a task that was never handed out, for example by a subagent of
    the coordinator. A failed task has to be submitted again first."""
    if task.status not in ("open", "queued"):
        return None
    check_has_lock(tx, task)
    if task.status == "queued":
        leave_queue(tx, task)
    epoch = next_epoch(task, tx.epoch_floor)
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


def take(tx: Transaction, seen: Claim, verifier: str, now_ms: int) -> VerificationJob | None:
    """Take an open claim for a verifier, which has to renew it in time. None: the claim has changed
    since it was `seen`, another verifier was faster."""
    if tx.take_swarm(seen.swarm_id) is None:
        return None
    if tx.claim(seen.swarm_id, seen.task_id, seen.claim_id) != seen:
        return None
    handoff = tx.handoff(seen.swarm_id, seen.task_id, seen.contract_version)
    assert handoff is not None, "a claim names a version that is there"
    until_ms = now_ms + VERIFIER_SECONDS * 1000
    tx.put_claim(
        seen._replace(state="taken", taken_by=verifier, taken_until_ms=until_ms, taken_at_ms=now_ms)
    )
    return job_of(tx, seen, handoff)


def job_of(tx: Transaction, claim: Claim, handoff: Handoff) -> VerificationJob:
    content = json.loads(claim.words)
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
        # Without a target, all commits count as this task's own. A worker that may spawn could get
        # a receipt for anything, so only tasks of the operator account for changes.
        accounted_commits=tx.newest_planned_commits(handoff.repo_id, ACCOUNTED_COMMITS_MAX)
        if handoff.target is not None
        else [],
        commit=content["commit"],
        files_touched=content["files_touched"],
        contract=WorkerHandoff.model_validate_json(handoff.body).contract,
        contract_version=handoff.version,
        contract_hash=handoff.hash,
        policy=VerificationPolicy.model_validate_json(handoff.policy),
        waivers=tx.waivers(claim.swarm_id, claim.task_id),
        rejections=tx.rejections(claim.swarm_id, claim.task_id, REJECTIONS_MAX),
        ci=CiDemand.model_validate_json(handoff.ci) if handoff.ci else None,
        held_out=tx.held_out_tests(handoff),
    )


def renew(
    tx: Transaction, swarm_id: str, task_id: str, claim_id: int, verifier: str, now_ms: int
) -> bool:
    """The verifier is still working. False: the claim has ended, or another verifier has it."""
    if tx.take_swarm(swarm_id) is None:
        return False
    held = tx.claim(swarm_id, task_id, claim_id)
    if held is None or held.state != "taken" or held.taken_by != verifier:
        return False
    return tx.put_claim(held._replace(taken_until_ms=now_ms + VERIFIER_SECONDS * 1000))
