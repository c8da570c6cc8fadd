"""Taking the reports of an outbox to the server, in order."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from shiftboss.errors import ShiftbossError
from shiftboss.system.files import LockHeldError
from shiftboss.worker.checkpoints import remove_checkpoints
from shiftboss.worker.deadlines import Deadline
from shiftboss.worker.exchange import (
    ForeignAnswer,
    ServerUnreachable,
    answer_of,
    reaching,
    swarm_path,
)
from shiftboss.worker.outbox import Entry, Outbox
from shiftboss.worker.rounds import Round
from shiftboss.worker.server_address import TIMEOUT, Server

log = logging.getLogger(__name__)

# How long to wait for another process that is delivering.
PATIENCE_SECONDS: Final = 2.0
# Reports wait after these, and nobody is to blame for what they say.
NOT_THROUGH: Final = (ServerUnreachable, LockHeldError, OSError)


class Deliverer:
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
    def _round(self, deadline: Deadline | None) -> Iterator[Round]:
        patience = min(PATIENCE_SECONDS, deadline.seconds_left()) if deadline else PATIENCE_SECONDS
        with self.server.client() as client:
            this = Round(self.outbox, client, deadline)
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
