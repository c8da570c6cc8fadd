"""A verifier's calls to the server, made once or retried until the server answers."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, TypeVar

import httpx2

from shiftboss.client.errors import ServerUnreachable
from shiftboss.client.http_client import HttpClient, ServerReply, ServerRequest
from shiftboss.client.servers import Servers
from shiftboss.protocol.bus import BusRequest
from shiftboss.protocol.fields import Answer

A = TypeVar("A", bound=Answer)

ANSWER_SECONDS: Final = 10.0


class VerifierClient:
    """Every call raises what the server refuses. `on_lost` is called once per outage."""

    def __init__(
        self, server: Servers, operator_token: str | None, on_lost: Callable[[str], None]
    ) -> None:
        self._http = HttpClient(server)
        self._headers = {} if operator_token is None else {"Shiftboss-Operator": operator_token}
        self._on_lost = on_lost
        self._is_lost = False

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._http.__aexit__(kind, error, traceback)

    async def call(self, operation: str, request: BusRequest, answer: type[A]) -> A:
        """Once: also raises ServerUnreachable."""
        return _parse(await self._http.send(self._request(operation, request, answer)), answer)

    async def call_patiently(
        self, operation: str, request: BusRequest, answer: type[A], *, wait_seconds: float = 0
    ) -> A:
        """Retries forever. `wait_seconds` is how long the server itself may take to answer."""
        reply = await self._http.send_until_answered(
            self._request(operation, request, answer, wait_seconds), self._report_outage
        )
        self._is_lost = False
        return _parse(reply, answer)

    def _request(
        self, operation: str, request: BusRequest, answer: type[A], wait_seconds: float = 0
    ) -> ServerRequest:
        required = (name for name, of in answer.model_fields.items() if of.is_required())
        return ServerRequest(
            path=f"/operator/{operation}",
            body=request.model_dump(mode="json"),
            members=tuple(required),
            headers=self._headers,
            timeout=httpx2.Timeout(ANSWER_SECONDS, connect=2.0, read=ANSWER_SECONDS + wait_seconds),
        )

    def _report_outage(self, error: ServerUnreachable) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._on_lost(error.detail)


def _parse(reply: ServerReply, answer: type[A]) -> A:
    return answer.model_validate_json(reply.content)
