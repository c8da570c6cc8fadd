"""Taking the reports of an outbox to the server, in order."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx2

from shiftboss.client.backoff import Deadline
from shiftboss.client.exchange import (
    ForeignAnswer,
    ServerUnreachable,
    answer_of,
    reaching,
    says_later,
    swarm_path,
)
from shiftboss.client.server_address import TIMEOUT, Server
from shiftboss.errors import Conflict, InvalidRequest, ShiftbossError, UnknownPacket
from shiftboss.system.file_locks import LockHeldError
from shiftboss.worker.checkpoints import remove_checkpoints
from shiftboss.worker.outbox import Entry, Outbox

# One round of a deliverer: what it does while it holds the outbox.


# What the server says of the report itself: it would say the same tomorrow. Anything else, such as
# a wrong token or a swarm that is not there yet, can be put right while the reports wait.
_FOR_GOOD: Final = (Conflict, InvalidRequest, UnknownPacket)


class DeliveryRound:
    """`complete` are swarms that an answer has called complete; `held_back` says, by swarm, why
    its reports wait although the server answers."""

    def __init__(self, outbox: Outbox, client: httpx2.Client, deadline: Deadline | None) -> None:
        self.complete: set[str] = set()
        self.held_back: dict[str, ShiftbossError] = {}
        self._outbox = outbox
        self._client = client
        self._deadline = deadline

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
            # It does not overtake its elders: what holds them back is what it would be told.
            if own.swarm_id in self.held_back:
                raise self.held_back[own.swarm_id]
            answer = self._post(own)
        except ServerUnreachable:
            raise
        except ShiftbossError:
            file.unlink(missing_ok=True)
            raise
        file.unlink(missing_ok=True)
        return answer

    def _deliver_unattended(self, file: Path, entry: Entry) -> None:
        if entry.swarm_id in self.held_back:
            return
        try:
            self._post(entry)
        except ServerUnreachable:
            raise
        except _FOR_GOOD as error:
            self._outbox.reject(file, error.detail)
        except ShiftbossError as error:
            self.held_back[entry.swarm_id] = error
        else:
            file.unlink(missing_ok=True)

    def _post(self, entry: Entry) -> dict[str, Any]:
        with reaching(self._client.base_url):
            response = self._client.post(
                swarm_path(entry.swarm_id, entry.operation),
                json=entry.body,
                headers={"Idempotency-Key": entry.key},
                timeout=self._deadline.timeout() if self._deadline else TIMEOUT,
            )
        answer = _answer_to(entry, response)
        if answer.get("swarm_complete") is True:
            self.complete.add(entry.swarm_id)
        return answer


def _answer_to(entry: Entry, response: httpx2.Response) -> dict[str, Any]:
    said_yes = "registered" if entry.operation == "register" else "acknowledged"
    try:
        answer = answer_of(response, said_yes)
    except ServerUnreachable:
        raise
    except ShiftbossError as error:
        if says_later(response):
            raise ServerUnreachable(error.detail) from error
        raise
    if answer[said_yes] is not True:
        raise ForeignAnswer(f"{response.status_code} came back with {said_yes} not true")
    return answer


log = logging.getLogger(__name__)

# How long to wait for another process that is delivering.
PATIENCE_SECONDS: Final = 2.0
# Reports wait after these, and nobody is to blame for what they say.
NOT_THROUGH: Final = (ServerUnreachable, LockHeldError, OSError)


class Delivery:
    """`got_through` tells whether the server answered the last time; `holds_back`, whether some
    reports had to wait all the same."""

    def __init__(self, outbox: Outbox, server: Server) -> None:
        self.outbox = outbox
        self.server = server
        self.got_through = True
        self.holds_back = False
        self._told: set[str] = set()

    def deliver(self, own: Entry, deadline: Deadline) -> dict[str, Any]:
        """Deliver what waits before `own`, then `own`: its answer, or the error that it got.

        Raises one of NOT_THROUGH when the server gave no answer in time, when somebody else goes
        on delivering, or when the outbox cannot be read; the report waits then.
        """
        with self._round(deadline) as this:
            return this.up_to(own)

    def deliver_waiting(self) -> bool:
        """Deliver all that waits, for no caller. Whether nothing is left."""
        try:
            while self.outbox.files():
                with self._round(None) as this:
                    this.all()
                if this.held_back:
                    return False
        except NOT_THROUGH as error:
            log.debug("reports wait in %s: %s", self.outbox.folder, error)
            return False
        self._told.clear()
        return True

    def status(self, swarm_id: str, deadline: Deadline | None = None) -> dict[str, Any]:
        timeout = deadline.timeout() if deadline else TIMEOUT
        with self.server.client() as client, reaching(self.server.address):
            return answer_of(
                client.get(swarm_path(swarm_id, "status"), timeout=timeout), "status", "workers"
            )

    @contextmanager
    def _round(self, deadline: Deadline | None) -> Iterator[DeliveryRound]:
        patience = min(PATIENCE_SECONDS, deadline.seconds_left()) if deadline else PATIENCE_SECONDS
        with self.server.client() as client:
            this = DeliveryRound(self.outbox, client, deadline)
            try:
                with self._noting_the_way(), self.outbox.delivering(patience):
                    yield this
            finally:
                self.holds_back = bool(this.held_back)
                for reason in this.held_back.values():
                    self._tell(reason.detail)
                # With the locks given back: the outbox of this packet is cleaned up as well.
                for swarm_id in this.complete:
                    self._clean_up(swarm_id, deadline)

    @contextmanager
    def _noting_the_way(self) -> Iterator[None]:
        try:
            yield
        except NOT_THROUGH as error:
            self.got_through = False
            # A server that is away is nothing to tell of: it is what the outbox is for.
            if isinstance(error, ForeignAnswer | OSError):
                self._tell(str(error))
            raise
        except ShiftbossError:
            self.got_through = True
            raise
        self.got_through = True

    def _tell(self, why: str) -> None:
        """Once: the next try, some seconds later, finds the same."""
        if why not in self._told:
            self._told.add(why)
            log.warning(
                "reports for %s wait in %s: %s", self.server.address, self.outbox.folder, why
            )

    def _clean_up(self, swarm_id: str, deadline: Deadline | None) -> None:
        try:
            remove_checkpoints(self.status(swarm_id, deadline))
        except ShiftbossError as error:
            log.warning("the checkpoints of %s stay for now: %s", swarm_id, error.detail)
