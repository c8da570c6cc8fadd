"""The application of a server in the process of a test: requests without a socket.

For tests about what requests are answered with. What is about connections needs a real server.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from starlette.types import Message

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.evidence.port import Evidence
from shiftboss.server.http.app import App
from shiftboss.store.open_store import store_at
from tests.sqlite_files import make_sqlite_file

T = TypeVar("T")

OPERATOR_TOKEN = "operators-token"


class InProcessReply(NamedTuple):
    status: int
    body: bytes
    headers: Mapping[str, str] = {}

    @property
    def answer(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str | None:
        """Of an error."""
        return self.answer.get("code") if self.status >= 400 else None


class ManualClock:
    def __init__(self, now_ms: int = 1_800_000_000_000) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


class InProcessServer:
    """On a clock that stands still, unless the test moves it."""

    def __init__(
        self,
        database: Path | str,
        *,
        token: str | None = None,
        needs_token: bool = False,
        evidence: Evidence | None = None,
    ) -> None:
        if isinstance(database, Path) and not database.exists():
            make_sqlite_file(database)
        self.clock = ManualClock()
        self.coordinator = Coordinator(
            store_at(str(database)), evidence, clock=self.clock, verifies=False
        )
        self.app = App(self.coordinator, token, OPERATOR_TOKEN, needs_token=needs_token)
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        self.run(self.coordinator.start())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.run(self.coordinator.stop())
        self._runner.close()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(coroutine)

    def post(
        self, path: str, body: object = None, token: str | None = None, **headers: str
    ) -> InProcessReply:
        return self.run(self.send("POST", path, body, token, headers))

    def get(self, path: str, token: str | None = None) -> InProcessReply:
        return self.run(self.send("GET", path, None, token))

    def bus(self, operation: str, token: str | None = None, /, **members: object) -> InProcessReply:
        return self.post(f"/bus/{operation}", members, token)

    def operator(
        self, operation: str, token: str | None = None, /, **members: object
    ) -> InProcessReply:
        """With the operator's token, unless another one is given."""
        return self.post(f"/operator/{operation}", members, token or OPERATOR_TOKEN)

    def start_task(self, swarm_id: str, bead_id: str, worker: str) -> None:
        """A new task that the worker has acknowledged."""
        self.bus("register_worker", swarm_id=swarm_id, name=worker)
        self.bus("add_task", swarm_id=swarm_id, bead_id=bead_id, title=bead_id)
        self.bus("submit_task", swarm_id=swarm_id, bead_id=bead_id)
        acknowledged = self.bus("ack_task", swarm_id=swarm_id, name=worker, bead_id=bead_id)
        assert acknowledged.status == 200, acknowledged

    def create_token(self, name: str, role: str, **limits: object) -> str:
        reply = self.operator("create_token", name=name, role=role, **limits)
        assert reply.status == 200, reply
        return str(reply.answer["token"])

    async def send(
        self,
        method: str,
        target: str,
        body: object = None,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        on_body: Callable[[bytes], None] | None = None,
    ) -> InProcessReply:
        """`on_body` gets the parts of a response while it lasts. Bytes are sent as they are."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        if body is None:
            content = b""
        sent: list[Message] = []

        async def receive() -> Message:
            if content_left:
                return {"type": "http.request", "body": content_left.pop(), "more_body": False}
            await asyncio.Event().wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            sent.append(message)
            if on_body is not None and message.get("body"):
                on_body(message["body"])

        content_left = [content]
        path, _, query = target.partition("?")
        lines = [(b"host", b"127.0.0.1"), (b"content-length", b"%d" % len(content))]
        if content and "content_type" not in (headers or {}):
            lines.append((b"content-type", b"application/json"))
        if token is not None:
            lines.append((b"authorization", f"Bearer {token}".encode()))
        for name, value in (headers or {}).items():
            lines.append((name.replace("_", "-").encode(), value.encode()))
        await self.app(
            {
                "type": "http",
                "method": method,
                "scheme": "http",
                "path": path,
                "query_string": query.encode(),
                "headers": lines,
                "server": ("127.0.0.1", 80),
            },
            receive,
            send,
        )
        return InProcessReply(
            sent[0]["status"],
            b"".join(message.get("body", b"") for message in sent),
            {name.decode(): value.decode() for name, value in sent[0]["headers"]},
        )
