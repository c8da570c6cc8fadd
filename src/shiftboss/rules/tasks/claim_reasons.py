"""Why a claim has no verdict yet, as a sentence with the command that helps."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from shiftboss.rules.claims.handoffs import Claim, ClaimPass
from shiftboss.rules.claims.passing import obstacle, waiting_for
from shiftboss.rules.tasks.waiting import Reason, short_text, time_text


def open_claim_reason(
    claim: Claim, living: Collection[str], passes: Sequence[ClaimPass], now_ms: int
) -> Reason:
    """`living` are the verifiers that ask for claims."""
    if claim.escalated_at_ms is not None and claim.state == "waiting":
        return stuck_claim_reason(claim, passes)
    why = waiting_for(claim, living, passes, now_ms)
    text = f"claim {claim.claim_id} of {claim.worker} "
    if why is None:
        text += f"is being verified by {claim.taken_by}"
        if claim.taken_at_ms is not None:
            text += f" since {time_text(claim.taken_at_ms)}"
    else:
        text += f"waits for its verification: {short_text(why)}"
    command = f"shiftboss handoff show {claim.task_id} --swarm {claim.swarm_id}"
    return Reason("claim", claim.task_id, text, command)


def stuck_claim_reason(claim: Claim, passes: Sequence[ClaimPass]) -> Reason:
    """A claim that no verifier can verify."""
    retry = f"shiftboss claim retry {claim.task_id} --swarm {claim.swarm_id}"
    text = f"claim {claim.claim_id} of {claim.worker} "
    if not passes:
        text += "waits for a verifier, and none is there: start one"
        return Reason("stuck_claim", claim.task_id, text, "shiftboss verifier", (retry,))
    text += f"cannot be verified by any verifier: {short_text(obstacle(passes))}. "
    text += "Fix that, or start a verifier where the repository is; then let them try again"
    return Reason("stuck_claim", claim.task_id, text, retry, ("shiftboss verifier",))
