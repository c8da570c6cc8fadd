"""What CI says of a commit that has landed."""

from __future__ import annotations

from shiftboss.errors import CiUnavailable
from shiftboss.evidence.port import Evidence
from shiftboss.protocol.ci import CiDemand
from shiftboss.rules.claims.handoffs import Handoff
from shiftboss.rules.contract.ci_verdict import ci_state, judge


async def ci_of_landed(
    evidence: Evidence, handoff: Handoff, accepted: str, landed: str
) -> str | None:
    """Passed, failed, pending or unverifiable, where the policy holds the repo until it is known.
    The commit that was accepted has passed; a merge of it is another one."""
    if not handoff.lands_later or handoff.ci is None:
        return None
    if landed == accepted:
        return "passed"
    demand = CiDemand.model_validate_json(handoff.ci)
    demand = demand.model_copy(update={"branch": handoff.target})
    try:
        report = await evidence.ci_report(demand, landed)
    except CiUnavailable:
        return "pending"
    return ci_state(judge(report, demand))
