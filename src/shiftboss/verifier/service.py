"""The service of `shiftboss verifier`: takes claims, verifies them, reports the verdicts."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from shiftboss.client.servers import Servers
from shiftboss.errors import EvidenceUnavailable, InvalidRequest, ShiftbossError
from shiftboss.evidence.checks.claim_renewal import verify_with_renewal
from shiftboss.evidence.checks.verifier import Verifier
from shiftboss.protocol.claims.claim_requests import (
    RenewClaimAnswer,
    RenewClaimRequest,
    TakeClaimAnswer,
    TakeClaimRequest,
    VerdictAnswer,
    VerdictRequest,
)
from shiftboss.protocol.claims.verdicts import VerificationJob
from shiftboss.system.file_locks import try_lock
from shiftboss.system.state_folder import make_state_folder
from shiftboss.verifier.server_client import VerifierClient

# A claim that another verifier has lost is offered when a wait ends, not when it is lost.
TAKE_SECONDS: Final = 10
GIVE_BACK_SECONDS: Final = 2.0


class VerifiedClaim(NamedTuple):
    """What became of a claim: accepted, refused, waiting (to be verified again) or void. `unable`
    is why this verifier has left it to others."""

    bead_id: str
    claim_id: int
    state: str
    unable: str | None = None


class VerifierService:
    def __init__(
        self,
        client: VerifierClient,
        name: str,
        verifier: Verifier,
        on_verified: Callable[[VerifiedClaim], None],
    ) -> None:
        self._client = client
        self._name = name
        self._verifier = verifier
        self._on_verified = on_verified

    async def run(self, at_once: int) -> None:
        """Run until cancelled. Raises what the server refuses, such as a wrong operator's token."""
        loops = [asyncio.create_task(self._take_claims()) for _ in range(at_once)]
        try:
            await asyncio.gather(*loops)
        finally:
            for loop in loops:
                loop.cancel()
            await asyncio.gather(*loops, return_exceptions=True)
            await self._verifier.close()

    async def _take_claims(self) -> None:
        request = TakeClaimRequest(verifier=self._name, wait_ms=TAKE_SECONDS * 1000)
        while True:
            answer = await self._client.call_patiently(
                "take_claim", request, TakeClaimAnswer, wait_seconds=TAKE_SECONDS
            )
            if answer.job is not None:
                await self._verify(answer.job)

    async def _verify(self, job: VerificationJob) -> None:
        try:
            report = await verify_with_renewal(job, self._name, self._verifier.verify, self._renew)
        except asyncio.CancelledError:
            await self._give_back(job)
            raise
        if report is None:
            self._on_verified(VerifiedClaim(job.bead_id, job.claim_id, "void"))
            return
        state = await self._report(report)
        self._on_verified(VerifiedClaim(job.bead_id, job.claim_id, state, _unable(report)))

    async def _renew(self, request: RenewClaimRequest) -> RenewClaimAnswer:
        return await self._client.call("renew_claim", request, RenewClaimAnswer)

    async def _report(self, report: VerdictRequest) -> str:
        try:
            answer = await self._client.call_patiently("report_verdict", report, VerdictAnswer)
        except InvalidRequest as error:
            # Perhaps a server of another version. It should know why there is no verdict.
            reason = (report.unable or error.detail)[:5000]
            update = {"verdict": None, "unable": None, "failure": reason}
            failure = report.model_copy(update=update)
            answer = await self._client.call_patiently("report_verdict", failure, VerdictAnswer)
        return answer.state

    async def _give_back(self, job: VerificationJob) -> None:
        """Return the claim: another verifier need not wait until this one counts as lost."""
        request = VerdictRequest(
            swarm_id=job.swarm_id,
            bead_id=job.bead_id,
            claim_id=job.claim_id,
            verifier=self._name,
            released=True,
        )
        with contextlib.suppress(ShiftbossError, TimeoutError):
            async with asyncio.timeout(GIVE_BACK_SECONDS):
                await self._client.call("report_verdict", request, VerdictAnswer)


def _unable(report: VerdictRequest) -> str | None:
    """Why the claim is left to others, by itself or as a verdict that counts if nobody else can
    look."""
    missing: str | None = (report.verdict or {}).get("missing")
    return report.unable or missing


async def run_verifier(
    server: Servers,
    operator_token: str | None,
    name: str,
    folder: Path,
    at_once: int,
    on_verified: Callable[[VerifiedClaim], None],
    on_lost: Callable[[str], None],
) -> None:
    """Run until cancelled. Without the operator's token, that of the server must be one of a
    verifier."""
    with _locked_folder(folder):
        async with VerifierClient(server, operator_token, on_lost) as client:
            verifier = Verifier(folder, at_once=at_once)
            await VerifierService(client, name, verifier, on_verified).run(at_once)


@contextlib.contextmanager
def _locked_folder(folder: Path) -> Iterator[None]:
    """Hold the folder: a verifier deletes what it finds there, so two must not share one."""
    make_state_folder(folder)
    try:
        lock = try_lock(folder / "lock")
    except OSError as error:
        raise EvidenceUnavailable(f"cannot use the folder {folder}: {error.strerror}") from error
    if lock is None:
        raise EvidenceUnavailable(
            f"another verifier uses the folder {folder}", hint="give this one another --folder"
        )
    try:
        yield
    finally:
        os.close(lock)
