"""A verifier of the tests' own, run to its end."""

from __future__ import annotations

import asyncio
from pathlib import Path

from shiftboss.evidence.checks.verifier import Verifier
from shiftboss.protocol.verdicts import Verdict, VerificationJob


def verify(folder: Path, *jobs: VerificationJob) -> list[Verdict]:
    """Look at the claims together, and wait until nothing of it is left."""

    async def run() -> list[Verdict]:
        verifier = Verifier(folder / "verifier")
        try:
            return await asyncio.gather(*(verifier.verify(job) for job in jobs))
        finally:
            await verifier.close()

    return asyncio.run(run())
