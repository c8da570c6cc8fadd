"""The simulated network: requests are lost, late, repeated and overtaken, links are cut.

`SimulatedHttp` is the client's own `HttpClient` with another way to send: what retries, gives up
and reads the reply is the code that real workers use.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx2
from pydantic_core import to_json

from shiftboss.client.errors import ServerUnreachable
from shiftboss.client.http_client import HttpClient, ServerReply, ServerRequest, read_reply
from shiftboss.client.server_address import Server
from shiftboss.server.http.replies import Reply

if TYPE_CHECKING:
    from shiftboss.simulator.server import SimulatedServer
    from shiftboss.simulator.world import World

ADDRESS = Server("http://simulated", None)
CONNECT_SECONDS = 2.0
READ_SECONDS = 40.0


class SentRequest(NamedTuple):
    """A request as it went over the network. Liars send it again."""

    path: str
    body: dict[str, Any]
    key: str | None


class SimulatedHttp(HttpClient):
    def __init__(self, world: World, client: str) -> None:
        super().__init__(ADDRESS)
        self._world = world
        self._client = client
        self._server = 0

    async def send(self, request: ServerRequest) -> ServerReply:
        sent = SentRequest(request.path, dict(request.body or {}), request.key)
        reply = await self.exchange(sent)
        return read_reply(httpx2.Response(reply.status, content=reply.body), *request.members)

    async def exchange(self, sent: SentRequest) -> Reply:
        """Send to the server that answered last; after a failure the next request goes to another
        one."""
        try:
            return await self._world.network.exchange(self._client, self._server, sent)
        except ServerUnreachable:
            self._server += 1
            raise


class Network:
    def __init__(self, world: World) -> None:
        self._world = world
        self.sent: list[SentRequest] = []
        # Pairs of client and server that do not reach each other.
        self.cut: set[tuple[str, str]] = set()

    async def exchange(self, client: str, number: int, sent: SentRequest) -> Reply:
        """One request and its reply. Raises ServerUnreachable."""
        world = self._world
        server = world.servers[number % len(world.servers)]
        if len(self.sent) < 500:
            self.sent.append(sent)
        await asyncio.sleep(world.draw_network_delay())
        if not server.is_up or (client, server.name) in self.cut:
            await asyncio.sleep(CONNECT_SECONDS)
            raise ServerUnreachable(f"{server.name} does not answer")
        if world.has_fault(world.profile.lost_messages):
            await asyncio.sleep(READ_SECONDS)
            raise ServerUnreachable("the request was lost")
        if world.has_fault(world.profile.repeated_messages):
            world.spawn(self._repeat(server, sent, world.draw_network_delay()))
        reply = await self._answer_of(server, sent)
        if world.has_fault(world.profile.lost_messages) or (client, server.name) in self.cut:
            await asyncio.sleep(READ_SECONDS)
            raise ServerUnreachable("the reply was lost")
        await asyncio.sleep(world.draw_network_delay())
        return reply

    async def _repeat(self, server: SimulatedServer, sent: SentRequest, delay: float) -> None:
        await asyncio.sleep(delay)
        if server.is_up:
            try:
                await self._answer_of(server, sent)
            except ServerUnreachable:
                pass

    async def _answer_of(self, server: SimulatedServer, sent: SentRequest) -> Reply:
        """Wait for the server. If the client goes away, the server goes on, as it does when nobody
        reads its answer."""
        world = self._world
        handling = server.handle(sent.path, to_json(sent.body), sent.key)
        world.promises.expect_answer(handling, server, sent)
        done, _ = await asyncio.wait({handling}, timeout=READ_SECONDS)
        if not done or handling.cancelled():
            raise ServerUnreachable("the connection was closed")
        reply = handling.result()
        world.promises.check_answer(sent, reply)
        return reply
