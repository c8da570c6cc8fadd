"""Takes claims as long as it runs, some at once, and reports a verdict for each."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from shiftboss.client.server_address import Server
from shiftboss.errors import InvalidRequest, ShiftbossError
from shiftboss.evidence.checks.renewal import tend
from shiftboss.evidence.checks.verifier import Verifier
from shiftboss.protocol.handoff_requests import (
    RenewClaimAnswer,
    RenewClaimRequest,
    TakeClaimAnswer,
    TakeClaimRequest,
    VerdictAnswer,
    VerdictRequest,
)
from shiftboss.protocol.verdicts import Verdict, VerificationJob
from shiftboss.system.file_locks import held_folder
from shiftboss.verifier.server_client import VerifierClient

# A claim that another verifier has lost is found when a wait is over, not when it is lost.
TAKE_SECONDS: Final = 10
GIVE_BACK_SECONDS: Final = 2.0


class Looked(NamedTuple):
    """What became of a claim: accepted, refused, waiting (to be tried again) or void."""

    bead_id: str
    claim_id: int
    state: str


class VerifierService:
    def __init__(
        self,
        line: VerifierClient,
        name: str,
        verifier: Verifier,
        on_looked: Callable[[Looked], None],
    ) -> None:
        self._line = line
        self._name = name
        self._verifier = verifier
        self._on_looked = on_looked

    async def run(self, at_once: int) -> None:
        """Until it is cancelled. Raises what the server refuses, such as a wrong token."""
        places = [asyncio.create_task(self._work()) for _ in range(at_once)]
        try:
            await asyncio.gather(*places)
        finally:
            for place in places:
                place.cancel()
            await asyncio.gather(*places, return_exceptions=True)
            await self._verifier.close()

    async def _work(self) -> None:
        request = TakeClaimRequest(verifier=self._name, wait_ms=TAKE_SECONDS * 1000)
        while True:
            taken = await self._line.call_patiently(
                "take_claim", request, TakeClaimAnswer, wait_seconds=TAKE_SECONDS
            )
            if taken.job is not None:
                await self._look_at(taken.job)

    async def _look_at(self, job: VerificationJob) -> None:
        try:
            found = await tend(job, self._name, self._verify, self._renew)
        except asyncio.CancelledError:
            await self._give_back(job)
            raise
        state = "void" if found is None else await self._report(found)
        self._on_looked(Looked(job.bead_id, job.claim_id, state))

    async def _verify(self, job: VerificationJob) -> Verdict:
        return await self._verifier.verify(job)

    async def _renew(self, request: RenewClaimRequest) -> RenewClaimAnswer:
        return await self._line.call("renew_claim", request, RenewClaimAnswer)

    async def _report(self, found: VerdictRequest) -> str:
        try:
            answer = await self._line.call_patiently("report_verdict", found, VerdictAnswer)
        except InvalidRequest as error:
            # A server of another version, perhaps. It is to know why there is no verdict.
            failure = found.model_copy(update={"verdict": None, "failure": error.detail[:5000]})
            answer = await self._line.call_patiently("report_verdict", failure, VerdictAnswer)
        return answer.state

    async def _give_back(self, job: VerificationJob) -> None:
        """Another verifier need not wait until this one counts as lost."""
        request = VerdictRequest(
            swarm_id=job.swarm_id,
            bead_id=job.bead_id,
            claim_id=job.claim_id,
            verifier=self._name,
            failure="the verifier was stopped",
        )
        with contextlib.suppress(ShiftbossError, TimeoutError):
            async with asyncio.timeout(GIVE_BACK_SECONDS):
                await self._line.call("report_verdict", request, VerdictAnswer)


async def run_verifier(
    server: Server,
    operator_token: str,
    name: str,
    folder: Path,
    at_once: int,
    on_looked: Callable[[Looked], None],
    on_lost: Callable[[str], None],
) -> None:
    """Until it is cancelled."""
    with held_folder(folder):
        async with VerifierClient(server, operator_token, on_lost) as line:
            verifier = Verifier(folder, at_once=at_once)
            await VerifierService(line, name, verifier, on_looked).run(at_once)
