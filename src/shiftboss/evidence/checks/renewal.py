"""Verifying one claim for a coordinator that may be in this process or on another machine."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from shiftboss.errors import ShiftbossError
from shiftboss.protocol.handoff_requests import RenewClaimAnswer, RenewClaimRequest, VerdictRequest
from shiftboss.protocol.verdicts import Verdict, VerificationJob
from shiftboss.rules.claims.handoffs import VERIFIER_SECONDS
from shiftboss.rules.claims.verdicts import fitting

log = logging.getLogger(__name__)

RENEW_SECONDS = VERIFIER_SECONDS / 4

Verify = Callable[[VerificationJob], Awaitable[Verdict]]
Renew = Callable[[RenewClaimRequest], Awaitable[RenewClaimAnswer]]


async def tend(
    job: VerificationJob, verifier: str, verify: Verify, renew: Renew
) -> VerdictRequest | None:
    """What is to be reported; None when the attempt ended meanwhile and nobody waits."""
    about: dict[str, Any] = {
        "swarm_id": job.swarm_id,
        "bead_id": job.bead_id,
        "claim_id": job.claim_id,
        "verifier": verifier,
    }
    looking = asyncio.ensure_future(verify(job))
    renewing = asyncio.create_task(_keep(RenewClaimRequest(**about), renew, looking))
    try:
        await asyncio.wait((looking,))
        if looking.cancelled():
            return None
        verdict = looking.result()
    except ShiftbossError as error:
        return VerdictRequest(**about, failure=error.detail[:5000])
    except Exception as error:
        log.exception("claim %s of %s could not be verified", job.claim_id, job.bead_id)
        return VerdictRequest(**about, failure=f"a mistake of ours: {error!r}"[:5000])
    finally:
        renewing.cancel()
        looking.cancel()
        await asyncio.gather(renewing, looking, return_exceptions=True)
    return VerdictRequest(**about, verdict=fitting(verdict).model_dump(mode="json"))


async def _keep(request: RenewClaimRequest, renew: Renew, looking: asyncio.Future[Verdict]) -> None:
    """Say that somebody is at it, until nobody wants it any more."""
    while True:
        await asyncio.sleep(RENEW_SECONDS)
        try:
            answer = await renew(request)
        except ShiftbossError:
            continue
        if not answer.held:
            looking.cancel()
            return
