"""Calls of a bus worker: one operation each, retried until the server answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import httpx2

from shiftboss.client.http_client import HttpClient, ServerRequest
from shiftboss.client.server_address import TIMEOUT, Server
from shiftboss.client.servers import Servers

POLL_MS: Final = 30_000
# Some seconds longer than the poll itself, so that a poll whose reply was lost is noticed.
POLL_TIMEOUT: Final = httpx2.Timeout(10.0, connect=2.0, read=POLL_MS / 1000 + 10.0)

# The member that tells the answer of an operation from other JSON.
_MEMBER_OF_ANSWER: Final = {
    "register_worker": "worker",
    "poll_task": "task",
    "ack_task": "epoch",
    "worker_done": "success",
    "task_failed": "success",
    "heartbeat": "bead_id",
    "reset_worker": "released",
    "return_task": "status",
    "add_task": "status",
    "add_tasks": "added",
    "submit_task": "dispatched",
    "send_message": "accepted",
    "report_milestone": "milestone",
    "report_failure": "action",
    "show_task": "status",
    "show_handoff": "handoff",
    "show_ci": "state",
}


class BusClient:
    """The bus of one swarm. Every call raises what the server refuses."""

    def __init__(
        self, server: Server | Servers, swarm_id: str, http: HttpClient | None = None
    ) -> None:
        self._http = http or HttpClient(server)
        self._swarm_id = swarm_id

    async def call(
        self,
        operation: str,
        members: Mapping[str, object],
        *,
        key: str | None = None,
        timeout: httpx2.Timeout = TIMEOUT,  # noqa: ASYNC109 - of the connection, not of the call
    ) -> dict[str, Any]:
        """Retries until the server answers, however long that takes."""
        request = self._request(operation, members, key, timeout)
        return (await self._http.send_until_answered(request)).answer

    def call_once(self, operation: str, members: Mapping[str, object]) -> dict[str, Any]:
        """From a thread, without a retry: also raises ServerUnreachable."""
        return self._http.send_blocking(self._request(operation, members)).answer

    def call_within(
        self, seconds: float, operation: str, members: Mapping[str, object], key: str
    ) -> dict[str, Any]:
        """From a thread. Raises ServerUnreachable when no attempt succeeded in time."""
        request = self._request(operation, members, key)
        return self._http.send_blocking_within(seconds, request).answer

    def _request(
        self,
        operation: str,
        members: Mapping[str, object],
        key: str | None = None,
        timeout: httpx2.Timeout = TIMEOUT,
    ) -> ServerRequest:
        given = {name: value for name, value in members.items() if value is not None}
        return ServerRequest(
            path=f"/bus/{operation}",
            body=given | {"swarm_id": self._swarm_id},
            key=key,
            members=(_MEMBER_OF_ANSWER[operation],),
            timeout=timeout,
        )
