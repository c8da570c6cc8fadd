"""The line of a bus worker to the server: one call, said again until it is answered."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

import httpx2

from shiftboss.client.backoff import pauses
from shiftboss.client.exchange import ServerUnreachable, answer_of, reaching, says_later
from shiftboss.client.server_address import TIMEOUT, Server

log = logging.getLogger(__name__)

POLL_MS: Final = 30_000
# A poll that was lost without a word is noticed some seconds after its time.
POLL_TIMEOUT: Final = httpx2.Timeout(10.0, connect=2.0, read=POLL_MS / 1000 + 10.0)

# What tells an answer from other people's JSON.
_MEMBER_OF_ANSWER: Final = {
    "register_worker": "worker",
    "poll_task": "task",
    "ack_task": "epoch",
    "worker_done": "success",
    "task_failed": "success",
    "heartbeat": "bead_id",
    "reset_worker": "released",
    "send_message": "accepted",
    "report_milestone": "milestone",
    "report_failure": "action",
    "show_task": "status",
    "show_ci": "state",
}


def report_key() -> str:
    """A key belongs to one report: under it, the report counts once however often it is said."""
    return uuid4().hex


class BusClient:
    """A client per call: none is left open when an event loop ends, and any loop may call."""

    def __init__(self, server: Server, swarm_id: str) -> None:
        self._server = server
        self._swarm_id = swarm_id

    async def call(
        self,
        operation: str,
        members: Mapping[str, object],
        *,
        key: str | None = None,
        timeout: httpx2.Timeout = TIMEOUT,  # noqa: ASYNC109 - of the connection, not of the call
    ) -> dict[str, Any]:
        """The answer, however long the server is away. Raises what the server refuses."""
        waits = pauses()
        while True:
            try:
                async with self._server.async_client() as client:
                    with reaching(self._server.address):
                        response = await client.post(
                            **self._request(operation, members, key), timeout=timeout
                        )
                    return _answer(operation, response)
            except ServerUnreachable as error:
                log.info("%s: %s; trying again", operation, error.detail)
            await asyncio.sleep(next(waits))

    def call_once(
        self, operation: str, members: Mapping[str, object], key: str | None = None
    ) -> dict[str, Any]:
        """The same from a thread, without patience. Raises ServerUnreachable, too."""
        with self._server.client() as client:
            with reaching(self._server.address):
                response = client.post(**self._request(operation, members, key))
            return _answer(operation, response)

    def call_within(
        self, seconds: float, operation: str, members: Mapping[str, object], key: str
    ) -> dict[str, Any]:
        """From a thread, said again for so long. Raises ServerUnreachable at the end of it."""
        deadline = time.monotonic() + seconds
        for pause in pauses():
            try:
                return self.call_once(operation, members, key)
            except ServerUnreachable:
                if time.monotonic() + pause > deadline:
                    raise
            time.sleep(pause)
        raise AssertionError("there is always another pause")

    def _request(
        self, operation: str, members: Mapping[str, object], key: str | None
    ) -> dict[str, Any]:
        said = {name: value for name, value in members.items() if value is not None}
        return {
            "url": f"/bus/{operation}",
            "json": said | {"swarm_id": self._swarm_id},
            "headers": {"Idempotency-Key": key} if key else {},
        }


def _answer(operation: str, response: httpx2.Response) -> dict[str, Any]:
    if says_later(response):
        raise ServerUnreachable(f"{response.url} gave {response.status_code} and no answer")
    return answer_of(response, _MEMBER_OF_ANSWER[operation])
