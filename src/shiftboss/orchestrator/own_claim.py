"""What became of a claim that an agent has made by itself, while its process ran."""

from __future__ import annotations

import asyncio

from shiftboss.client.backoff import pauses
from shiftboss.orchestrator.line import Line


async def receipt_of_agent(line: Line, bead_id: str, epoch: int) -> str | None:
    """The receipt, if the work is accepted. While the server still looks at a claim of the attempt
    it is waited for: another claim, a failure or a handover would be refused until then."""
    for pause in pauses():
        if not await _is_being_verified(line, bead_id, epoch):
            break
        await asyncio.sleep(pause)
    task = await line.call("show_task", bead_id=bead_id)
    if task["status"] != "done":
        return None
    shown = await line.call("show_receipt", bead_id=bead_id)
    receipt: str = shown["signed_receipt"]["receipt"]["receipt_id"]
    return receipt


async def _is_being_verified(line: Line, bead_id: str, epoch: int) -> bool:
    claim = (await line.call("show_handoff", bead_id=bead_id))["last_claim"] or {}
    return claim.get("epoch") == epoch and claim.get("state") in ("waiting", "taken")
