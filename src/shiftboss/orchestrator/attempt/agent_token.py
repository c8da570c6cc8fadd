"""The token of an agent: it can report on the task of its attempt, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final, NamedTuple

from shiftboss.errors import ShiftbossError, UnknownPath
from shiftboss.orchestrator.run.server_client import RunServerClient
from shiftboss.worker.bus_task import FINAL_REPORT_SECONDS

# Beyond the time of the agent: it may still wait for the verdict of a claim.
MARGIN_SECONDS: Final = 3_600
SECONDS_MAX: Final = 30 * 86_400


class AgentToken(NamedTuple):
    """`token_id` is None for the token of the run, which is not revoked."""

    token: str | None
    token_id: str | None


async def create_agent_token(
    client: RunServerClient, bead_id: str, worker: str, seconds: float
) -> AgentToken:
    """Valid for longer than the attempt may take: if this process dies, it ends by itself."""
    lifetime = min(int(seconds) + MARGIN_SECONDS, SECONDS_MAX)
    try:
        made = await client.call(
            "create_task_token", bead_id=bead_id, name=worker, expires_in_seconds=lifetime
        )
    except UnknownPath:  # a server of an earlier version
        return AgentToken(client.server.token, None)
    return AgentToken(made["token"], made["created"]["token_id"])


async def revoke_agent_token(client: RunServerClient, token: AgentToken) -> None:
    """If the server cannot be reached or refuses, the token expires by itself."""
    if token.token_id is None:
        return
    with contextlib.suppress(TimeoutError, ShiftbossError):
        async with asyncio.timeout(FINAL_REPORT_SECONDS):
            await client.call("revoke_task_token", token_id=token.token_id)
