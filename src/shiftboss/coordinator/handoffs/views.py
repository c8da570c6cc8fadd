"""Views of a handoff: its prompt, and what `show_handoff` answers."""

from __future__ import annotations

import json
from typing import Any

from shiftboss.coordinator.claims.open_claims import pass_view
from shiftboss.errors import UnknownHandoff
from shiftboss.protocol.handoff_requests import HandoffView
from shiftboss.protocol.handoffs import WorkerHandoff
from shiftboss.rules.claims.claims import Claim
from shiftboss.rules.handoffs.handoffs import Handoff
from shiftboss.rules.prompts.handoff_text import render_handoff
from shiftboss.store.port import Transaction


def prompt_of(handoff: Handoff) -> str:
    return render_handoff(
        WorkerHandoff.model_validate_json(handoff.body),
        version=handoff.version,
        contract_hash=handoff.hash,
        base_commit=handoff.base_commit,
        branch=handoff.branch,
        repo=handoff.repo,
        expectations_change=json.loads(handoff.policy).get("expectations_change", []),
    )


def show(tx: Transaction, swarm_id: str, task_id: str, version: int | None) -> HandoffView:
    handoff = tx.handoff(swarm_id, task_id, version)
    if handoff is None:
        raise UnknownHandoff(task_id)
    last = tx.last_claim(swarm_id, task_id)
    return HandoffView(
        bead_id=task_id,
        version=handoff.version,
        hash=handoff.hash,
        handoff=json.loads(handoff.body),
        repo=handoff.repo,
        base_commit=handoff.base_commit,
        branch=handoff.branch,
        target=handoff.target,
        policy=json.loads(handoff.policy),
        strategy=handoff.strategy,
        reason=handoff.reason,
        created_at=handoff.created_at_ms,
        prompt=prompt_of(handoff),
        waivers=[waiver.model_dump() for waiver in tx.waivers(swarm_id, task_id)],
        last_claim=_claim_view(tx, last) if last else None,
        landing=handoff.landing,
        review=handoff.review,
        held_out=handoff.held_out,
    )


def _claim_view(tx: Transaction, claim: Claim) -> dict[str, Any]:
    content = json.loads(claim.words)
    return {
        "claim_id": claim.claim_id,
        "epoch": claim.epoch,
        "worker": claim.worker,
        "claimed_by": content.get("name"),
        "state": claim.state,
        "contract_version": claim.contract_version,
        "commit": content["commit"],
        "summary": content["summary"],
        "asked_at": claim.asked_at_ms,
        "ended_at": claim.ended_at_ms,
        "verifier": claim.taken_by,
        "taken_at": claim.taken_at_ms,
        "escalated_at": claim.escalated_at_ms,
        "passes": [pass_view(each).model_dump() for each in tx.claim_passes(claim)],
        "verdict": json.loads(claim.verdict) if claim.verdict else None,
    }
