"""The event streams of swarms, across lost connections."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import aclosing
from typing import Any, Final

import httpx2

from shiftboss.client.backoff import backoff_delays, delay_after
from shiftboss.client.errors import ServerUnreachable
from shiftboss.client.http_client import (
    HttpClient,
    ServerRequest,
    connection_errors,
    read_reply,
    swarm_path,
)
from shiftboss.client.server_address import Server
from shiftboss.client.servers import Attempts, Servers
from shiftboss.defaults import STREAM_SILENCE_SECONDS
from shiftboss.errors import ShiftbossError, Unauthorized

log = logging.getLogger(__name__)

_STREAM_TIMEOUT: Final = httpx2.Timeout(10.0, connect=2.0, read=STREAM_SILENCE_SECONDS)


class SwarmEvents:
    """Reconnects with the id of the last event, so that none is missed and none comes twice."""

    def __init__(self, server: Server | Servers, swarm_id: str, since_event_id: int) -> None:
        self._servers = Servers.at(server)
        self._path = swarm_path(swarm_id, "events")
        self._last = since_event_id
        self._was_connected = False

    async def follow(self) -> AsyncGenerator[dict[str, Any], None]:
        """Without end. Raises what the server refuses. Raises ServerUnreachable only if the first
        connection fails, at every address."""
        delays = backoff_delays()
        while True:
            try:
                for server in (attempts := Attempts(self._servers, is_repeatable=True)):
                    try:
                        async with aclosing(self._connection(server)) as events:
                            async for event in events:
                                delays = backoff_delays()
                                yield event
                        break
                    except (ServerUnreachable, Unauthorized) as error:
                        attempts.note_failure(server, error)
            except ServerUnreachable as error:
                if not self._was_connected:
                    raise
                log.info("events after %s: %s; trying again", self._last, error.detail)
                self._servers.tell_refusal_once(error)
                await asyncio.sleep(delay_after(error, delays))
            else:
                await asyncio.sleep(next(delays))

    async def _connection(self, server: Server) -> AsyncGenerator[dict[str, Any], None]:
        since = {"since_event_id": self._last}
        with connection_errors(server.address, server.ca):
            async with (
                server.async_client() as client,
                client.stream("GET", self._path, params=since, timeout=_STREAM_TIMEOUT) as response,
            ):
                await _check(response)
                self._was_connected = True
                self._servers.note_accepted()
                async for sent in httpx2.EventSource(response):
                    if sent.data:
                        self._last = int(sent.id)
                        yield {"id": self._last, "event": sent.event, "data": sent.json()}


class OtherSwarms:
    """Follows the swarms that something here waits for. `on_event` gets the kind of every new
    event, and one `CONNECTED` per swarm: what happened before that may be what was waited for."""

    CONNECTED: Final = "connected"

    def __init__(self, server: Server | Servers, on_event: Callable[[str], None]) -> None:
        self._servers = Servers.at(server)
        self._on_event = on_event
        self._following: dict[str, asyncio.Task[None]] = {}

    def follow_only(self, swarm_ids: Collection[str]) -> None:
        for swarm_id in self._following.keys() - set(swarm_ids):
            self._following.pop(swarm_id).cancel()
        for swarm_id in set(swarm_ids) - self._following.keys():
            self._following[swarm_id] = asyncio.create_task(self._follow(swarm_id))

    async def close(self) -> None:
        following = list(self._following.values())
        self.follow_only(())
        await asyncio.gather(*following, return_exceptions=True)

    async def _follow(self, swarm_id: str) -> None:
        """Ends if the server refuses, for example because the swarm was deleted."""
        request = ServerRequest(path=swarm_path(swarm_id, "status"), members=("last_event_id",))
        try:
            status = await HttpClient(self._servers).send_until_answered(request)
            self._on_event(self.CONNECTED)
            events = SwarmEvents(self._servers, swarm_id, status.answer["last_event_id"])
            for pause in backoff_delays():
                try:
                    async for event in events.follow():
                        self._on_event(event["event"])
                except ServerUnreachable:
                    await asyncio.sleep(pause)
        except ShiftbossError as error:
            log.info("events of %s: %s", swarm_id, error.detail)
            self._on_event(self.CONNECTED)


async def _check(response: httpx2.Response) -> None:
    if response.is_success:
        return
    await response.aread()
    read_reply(response)
