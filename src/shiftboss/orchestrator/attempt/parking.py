"""Parking an attempt: it cannot continue now, and ends without having failed."""

from __future__ import annotations

import time
from typing import Any, Final

from shiftboss.orchestrator.attempt.agent_round import RoundEnd
from shiftboss.orchestrator.run.run_context import RunContext
from shiftboss.worker.bus_task import BusTask

# The pause for a quota that does not say when it is available again. Most are by then; if not, the
# agent reports it again.
QUOTA_SECONDS: Final = 900.0
# The longest known quotas renew within a week.
QUOTA_SECONDS_MAX: Final = 8 * 86_400.0
REASON_CHARACTERS_MAX: Final = 2000


async def park_task(
    run: RunContext,
    task: BusTask,
    worker: str,
    reason: str,
    until_ms: int | None = None,
    checkpoint: dict[str, Any] | None = None,
) -> None:
    await run.client.call(
        "park_task",
        bead_id=task.bead_id,
        name=worker,
        epoch=task.epoch,
        reason=reason[:REASON_CHARACTERS_MAX],
        until_ms=until_ms,
        checkpoint=checkpoint,
    )
    task.leave()


async def pause_for_quota(run: RunContext, bead_id: str, end: RoundEnd) -> tuple[str, int]:
    """Pause the whole swarm: the other agents have the same quota. The reason and the end of the
    pause, in milliseconds since 1970."""
    now = time.time()
    until_seconds = min(end.until or now + QUOTA_SECONDS, now + QUOTA_SECONDS_MAX)
    until_ms, local_time = int(until_seconds * 1000), time.localtime(until_seconds)
    reason = f"quota: {end.message}"[:REASON_CHARACTERS_MAX]
    text = f"quota used up; paused until {time.strftime('%Y-%m-%d %H:%M', local_time)}"
    run.progress.log(bead_id, text)
    await run.client.call("pause_swarm", reason=reason, until_ms=until_ms)
    return reason, until_ms
