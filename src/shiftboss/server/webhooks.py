"""POST /ci/webhook/{repo}: what a forge tells of its CI."""

from __future__ import annotations

from starlette.types import Receive, Scope, Send

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.server.exchange import read_body, send_json


class CiWebhook:
    """Plain ASGI: the signature is over the bytes of the body."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._webhooks = coordinator.webhooks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(receive)
        headers = {str(name, "latin-1"): str(value, "latin-1") for name, value in scope["headers"]}
        answer = await self._webhooks.receive(scope["path_params"]["repo"], headers, body)
        await send_json(send, answer.model_dump_json().encode())
