"""Verifying one claim while renewing it at the coordinator, here or on another machine."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from shiftboss.errors import CiUnavailable, EvidenceElsewhere, ShiftbossError, UnknownRepo
from shiftboss.protocol.claims.claim_requests import (
    RenewClaimAnswer,
    RenewClaimRequest,
    VerdictRequest,
)
from shiftboss.protocol.claims.verdicts import Verdict, VerificationJob
from shiftboss.rules.claims.claims import VERIFIER_SECONDS
from shiftboss.rules.claims.verdicts import truncate_verdict
from shiftboss.system.log_subject import about

log = logging.getLogger(__name__)

RENEW_SECONDS = VERIFIER_SECONDS / 4

Verify = Callable[[VerificationJob], Awaitable[Verdict]]
Renew = Callable[[RenewClaimRequest], Awaitable[RenewClaimAnswer]]


async def verify_with_renewal(
    job: VerificationJob, verifier: str, verify: Verify, renew: Renew
) -> VerdictRequest | None:
    """The report on the claim. None: the attempt has ended, and no report is wanted."""
    with about(job.swarm_id, job.bead_id, epoch=job.epoch, claim=job.claim_id):
        log.info("verifying claim %s of %s", job.claim_id, job.bead_id)
        report = await _verify_with_renewal(job, verifier, verify, renew)
        log.info("claim %s of %s: %s", job.claim_id, job.bead_id, _outcome(report))
    return report


def _outcome(report: VerdictRequest | None) -> str:
    if report is None:
        return "the attempt has ended, and no verdict is wanted"
    if report.verdict is None:
        return report.unable or report.failure or "given back"
    return "accepted" if report.verdict["accepted"] else "refused"


async def _verify_with_renewal(
    job: VerificationJob, verifier: str, verify: Verify, renew: Renew
) -> VerdictRequest | None:
    identity: dict[str, Any] = {
        "swarm_id": job.swarm_id,
        "bead_id": job.bead_id,
        "claim_id": job.claim_id,
        "verifier": verifier,
    }
    verifying = asyncio.ensure_future(verify(job))
    renewing = asyncio.create_task(_keep_renewing(RenewClaimRequest(**identity), renew, verifying))
    try:
        await asyncio.wait((verifying,))
        if verifying.cancelled():
            return None
        verdict = verifying.result()
    except ShiftbossError as error:
        reason = error.detail[:5000]
        if _can_others_look(error):
            return VerdictRequest(**identity, unable=reason)
        return VerdictRequest(**identity, failure=reason)
    except Exception as error:
        log.exception("claim %s of %s could not be verified", job.claim_id, job.bead_id)
        return VerdictRequest(**identity, failure=f"internal error: {error!r}"[:5000])
    finally:
        renewing.cancel()
        verifying.cancel()
        await asyncio.gather(renewing, verifying, return_exceptions=True)
    return VerdictRequest(**identity, verdict=truncate_verdict(verdict).model_dump(mode="json"))


def _can_others_look(error: ShiftbossError) -> bool:
    """Whether the reason is this machine, and not the work: it has no such repository, no tool, no
    access to the CI."""
    if isinstance(error, CiUnavailable):
        return error.facts["reason"] in ("set_up", "token")
    return isinstance(error, EvidenceElsewhere | UnknownRepo)


async def _keep_renewing(
    request: RenewClaimRequest, renew: Renew, verifying: asyncio.Future[Verdict]
) -> None:
    """Renew the claim until this verifier loses it, then stop the verification."""
    while True:
        await asyncio.sleep(RENEW_SECONDS)
        try:
            answer = await renew(request)
        except ShiftbossError:
            continue
        if not answer.held:
            verifying.cancel()
            return
