"""Taking the reports of an outbox to the server, in order."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx2

from shiftboss.errors import ShiftbossError
from shiftboss.worker.checkpoints import remove_checkpoints
from shiftboss.worker.exchange import (
    ServerUnreachable,
    answer_of,
    reaching,
    says_later,
    swarm_path,
)
from shiftboss.worker.files import LockHeldError
from shiftboss.worker.outbox import Entry, Outbox
from shiftboss.worker.server_address import Server

log = logging.getLogger(__name__)

# How long to wait for another process that is delivering.
PATIENCE_SECONDS: Final = 2.0


class Deliverer:
    def __init__(self, outbox: Outbox, server: Server) -> None:
        self.outbox = outbox
        self.server = server

    def deliver(self, own: Entry) -> dict[str, Any]:
        """Deliver what waits before `own`, then `own`: its answer, or the error that it got.

        Raises ServerUnreachable, or LockHeldError when somebody else goes on delivering; the
        report waits then.
        """
        with self._round() as this:
            return this.up_to(own)

    def deliver_waiting(self) -> bool:
        """Deliver all that waits, for no caller. Whether nothing is left."""
        try:
            while self.outbox.files():
                with self._round() as this:
                    this.all()
        except (ServerUnreachable, LockHeldError, OSError) as error:
            log.debug("reports wait in %s: %s", self.outbox.folder, error)
            return False
        return True

    def status(self, swarm_id: str) -> dict[str, Any]:
        with self.server.client() as client, reaching(self.server.address):
            return answer_of(client.get(swarm_path(swarm_id, "status")))

    @contextmanager
    def _round(self) -> Iterator[_Round]:
        complete: set[str] = set()
        try:
            with self.outbox.delivering(PATIENCE_SECONDS), self.server.client() as client:
                yield _Round(self.outbox, client, complete)
        finally:
            # With the locks given back: the outbox of this packet is cleaned up as well.
            for swarm_id in complete:
                self._clean_up(swarm_id)

    def _clean_up(self, swarm_id: str) -> None:
        try:
            remove_checkpoints(self.status(swarm_id))
        except ShiftbossError as error:
            log.warning("the checkpoints of %s stay for now: %s", swarm_id, error.detail)


class _Round:
    """What one deliverer does while it holds the outbox."""

    def __init__(self, outbox: Outbox, client: httpx2.Client, complete: set[str]) -> None:
        self._outbox = outbox
        self._client = client
        self._complete = complete

    def all(self) -> None:
        for file, entry in self._waiting():
            self._deliver_unattended(file, entry)

    def up_to(self, own: Entry) -> dict[str, Any]:
        for file, entry in self._waiting():
            if entry.key == own.key:
                return self._deliver_own(file, own)
            self._deliver_unattended(file, entry)
        # Another process has delivered it: the same key gets the same answer.
        return self._post(own)

    def _waiting(self) -> Iterator[tuple[Path, Entry]]:
        for file in self._outbox.files():
            entry = self._outbox.read(file)
            if entry is not None:
                yield file, entry

    def _deliver_own(self, file: Path, own: Entry) -> dict[str, Any]:
        try:
            answer = self._post(own)
        except ServerUnreachable:
            raise
        except ShiftbossError:
            file.unlink()
            raise
        file.unlink()
        return answer

    def _deliver_unattended(self, file: Path, entry: Entry) -> None:
        try:
            self._post(entry)
        except ServerUnreachable:
            raise
        except ShiftbossError as error:
            self._outbox.reject(file, error.detail)
        else:
            file.unlink()

    def _post(self, entry: Entry) -> dict[str, Any]:
        with reaching(self._client.base_url):
            response = self._client.post(
                swarm_path(entry.swarm_id, entry.operation),
                json=entry.body,
                headers={"Idempotency-Key": entry.key},
            )
        if says_later(response):
            raise ServerUnreachable(f"{response.url} gave {response.status_code} and no answer")
        answer = answer_of(response)
        if answer.get("swarm_complete") is True:
            self._complete.add(entry.swarm_id)
        return answer
