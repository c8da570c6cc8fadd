"""POST /messages: the worker protocol over HTTP."""

from __future__ import annotations

from starlette.datastructures import QueryParams
from starlette.types import Receive, Scope, Send

from shiftboss.coordinator.bus.service import BusDesk
from shiftboss.errors import InvalidRequest, UnknownSwarm
from shiftboss.protocol.bus import DEFAULT_SWARM
from shiftboss.protocol.fields import is_swarm_id
from shiftboss.protocol.messages import message_from_json
from shiftboss.server.calls import rendered
from shiftboss.server.exchange import idempotency_key, read_body, send_json


class Messages:
    """One message of the worker protocol."""

    def __init__(self, desk: BusDesk) -> None:
        self._desk = desk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        query = QueryParams(scope["query_string"])
        for name in query:
            if name != "swarm_id":
                raise InvalidRequest(f"{name}: there is no such parameter", field=name)
        swarm_id = query.get("swarm_id", DEFAULT_SWARM)
        if not is_swarm_id(swarm_id):
            raise UnknownSwarm(swarm_id)
        message = message_from_json(await read_body(receive))
        answer = await self._desk.receive(message, swarm_id, idempotency_key(scope["headers"]))
        await send_json(send, rendered(answer))
