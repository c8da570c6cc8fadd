"""The line of a verifier to its server: one call, once or until it is answered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, TypeVar

import httpx2

from shiftboss.client.backoff import pauses
from shiftboss.client.exchange import ServerUnreachable, answer_of, reaching, says_later
from shiftboss.protocol.bus import BusRequest
from shiftboss.protocol.fields import Answer

log = logging.getLogger(__name__)

A = TypeVar("A", bound=Answer)

ANSWER_SECONDS: Final = 10.0


class VerifierClient:
    """`on_lost` is told once for each time that the server is away."""

    def __init__(
        self, http: httpx2.AsyncClient, operator_token: str, on_lost: Callable[[str], None]
    ) -> None:
        self._http = http
        self._headers = {"Shiftboss-Operator": operator_token, "Content-Type": "application/json"}
        self._on_lost = on_lost
        self._is_lost = False

    async def call(
        self, operation: str, request: BusRequest, answer: type[A], *, wait_seconds: float = 0
    ) -> A:
        """Raises what the server refuses, and ServerUnreachable."""
        limits = httpx2.Timeout(ANSWER_SECONDS, connect=2.0, read=ANSWER_SECONDS + wait_seconds)
        with reaching(self._http.base_url):
            response = await self._http.post(
                f"/operator/{operation}",
                content=request.model_dump_json(),
                headers=self._headers,
                timeout=limits,
            )
        if says_later(response):
            raise ServerUnreachable(f"{response.url} gave {response.status_code} and no answer")
        answer_of(response, *(name for name, of in answer.model_fields.items() if of.is_required()))
        return answer.model_validate_json(response.content)

    async def call_patiently(
        self, operation: str, request: BusRequest, answer: type[A], *, wait_seconds: float = 0
    ) -> A:
        """However long the server is away."""
        waits = pauses()
        while True:
            try:
                said = await self.call(operation, request, answer, wait_seconds=wait_seconds)
            except ServerUnreachable as error:
                self._lost(error.detail)
            else:
                self._is_lost = False
                return said
            await asyncio.sleep(next(waits))

    def _lost(self, detail: str) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._on_lost(detail)
        log.info("%s; trying again", detail)
