"""Answering requests from a database that no server has open, in the process of a command.

The requests go through the same application as those to a server, so that every command works the
same way. Nothing runs in the background: claims are not verified, leases do not end.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from starlette.types import Message

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.evidence.keys import KEY_FILE
from shiftboss.evidence.port import Evidence, NoEvidence
from shiftboss.evidence.subprocess.proxy import EvidenceProxy
from shiftboss.evidence.survey.policy_file import default_policy_file
from shiftboss.notifications.settings_source import SettingsSource
from shiftboss.server.http.app import App
from shiftboss.server.http.guard import OPERATOR_HEADER
from shiftboss.store.sqlite.offline_store import OfflineStore


class OfflineReply(NamedTuple):
    status: int
    body: bytes


class OfflineServer:
    """The user of the file is the operator. `has_written`: a request has changed the database."""

    def __init__(self, database: Path, *, writes: bool = True) -> None:
        """Raises StoreUnavailable if the database cannot be read by this version."""
        self._store = OfflineStore(database, writes=writes)
        coordinator = Coordinator(
            self._store,
            _evidence(database.parent),
            verifies=False,
            policy_file=default_policy_file(database.parent.parent),
            notify=SettingsSource(database.parent),
            state_folder=database.parent,
        )
        operator_token = secrets.token_urlsafe(32)
        self._headers = [(b"host", b"127.0.0.1"), (OPERATOR_HEADER, operator_token.encode())]
        self._app = App(coordinator, operator_token=operator_token)
        self._runner = asyncio.Runner()
        try:
            self._runner.run(coordinator.start_offline())
        except BaseException:
            self._runner.close()
            raise

    @property
    def has_written(self) -> bool:
        return self._store.has_written

    def needs_server(self, method: str, path: str) -> bool:
        """Whether the answer would come from somebody else: a verifier, another worker."""
        call = self._app.calls.find(method, path)
        return call is not None and call.waits

    def request(
        self, method: str, target: str, headers: Iterable[tuple[bytes, bytes]], body: bytes
    ) -> OfflineReply:
        return self._runner.run(self._request(method, target, headers, body))

    async def _request(
        self, method: str, target: str, headers: Iterable[tuple[bytes, bytes]], body: bytes
    ) -> OfflineReply:
        path, _, query = target.partition("?")
        scope = {
            "type": "http",
            "method": method,
            "scheme": "http",
            "path": path,
            "query_string": query.encode(),
            "headers": [*self._headers, *headers],
            "server": ("127.0.0.1", 80),
        }
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        return OfflineReply(sent[0]["status"], b"".join(part.get("body", b"") for part in sent))

    def close(self) -> None:
        self._runner.run(self._app.coordinator.stop())
        self._runner.close()


def _evidence(folder: Path) -> Evidence:
    """Without a key, no server was ever started here; a command does not create one."""
    return EvidenceProxy(folder, None) if (folder / KEY_FILE).exists() else NoEvidence()
