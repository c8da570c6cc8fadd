"""Use cases of verifiers: take a claim, and keep it while looking at it."""

from __future__ import annotations

import json

from shiftboss.protocol.ci import CiDemand
from shiftboss.protocol.handoffs import VerificationPolicy, WorkerHandoff
from shiftboss.protocol.verdicts import VerificationJob
from shiftboss.rules.claims.handoffs import VERIFIER_SECONDS, Claim, Handoff
from shiftboss.store.port import Transaction

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
