"""Delivering the reports of an outbox to the server, in order."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from shiftboss.client.backoff import Deadline
from shiftboss.client.errors import ServerUnreachable, TokenRefused, UnrecognizedReply
from shiftboss.client.http_client import HttpClient, ServerRequest, swarm_path
from shiftboss.client.server_address import TIMEOUT
from shiftboss.client.servers import Servers
from shiftboss.errors import Conflict, InvalidRequest, ShiftbossError, UnknownPacket
from shiftboss.system.file_locks import LockHeldError
from shiftboss.worker.checkpoints import remove_checkpoints
from shiftboss.worker.outbox import Entry, Outbox

log = logging.getLogger(__name__)

# How long to wait for another process that is delivering.
LOCK_WAIT_SECONDS: Final = 2.0
# After these, reports stay in the outbox and are delivered later.
NOT_DELIVERED: Final = (ServerUnreachable, LockHeldError, OSError)
# These are about the report itself and would not change with time. Any other refusal, such as a
# wrong token or a swarm that does not exist yet, can be fixed while the reports wait.
_PERMANENT: Final = (Conflict, InvalidRequest, UnknownPacket)


class OutboxDelivery:
    """`is_connected` tells whether the server answered the last time; `has_blocked_reports`,
    whether some reports had to wait although it did; `retry_after_seconds`, how long the server
    asked to wait."""

    def __init__(self, outbox: Outbox, servers: Servers) -> None:
        self.outbox = outbox
        self.servers = servers
        self.is_connected = True
        self.has_blocked_reports = False
        self.retry_after_seconds = 0.0
        self._warned_of: set[str] = set()

    def deliver(self, own: Entry, deadline: Deadline) -> dict[str, Any]:
        """Deliver what waits before `own`, then `own`. Returns its answer, or raises its refusal.

        Raises one of NOT_DELIVERED if the server did not answer in time, if another process is
        delivering, or if the outbox cannot be read. The report then stays in the outbox.
        """
        with self._round(deadline) as delivery_round:
            return delivery_round.deliver_up_to(own)

    def deliver_waiting(self) -> bool:
        """Deliver everything that waits, for no caller. Returns whether nothing is left."""
        try:
            while self.outbox.files():
                with self._round(None) as delivery_round:
                    delivery_round.deliver_all()
                if delivery_round.blocked_by:
                    return False
        except NOT_DELIVERED as error:
            log.debug("reports wait in %s: %s", self.outbox.folder, error)
            return False
        self._warned_of.clear()
        return True

    def status(self, swarm_id: str, deadline: Deadline | None = None) -> dict[str, Any]:
        request = ServerRequest(
            path=swarm_path(swarm_id, "status"),
            members=("status", "workers"),
            timeout=deadline.timeout if deadline else TIMEOUT,
        )
        return HttpClient(self.servers).send_blocking(request).answer

    @contextmanager
    def _round(self, deadline: Deadline | None) -> Iterator[DeliveryRound]:
        self.retry_after_seconds = 0.0
        lock_wait = LOCK_WAIT_SECONDS
        if deadline is not None:
            lock_wait = min(lock_wait, deadline.seconds_left())
        with HttpClient(self.servers) as client:
            delivery_round = DeliveryRound(self.outbox, client, deadline)
            try:
                with self._tracking_connection(), self.outbox.delivering(lock_wait):
                    yield delivery_round
            finally:
                self.has_blocked_reports = bool(delivery_round.blocked_by)
                for reason in delivery_round.blocked_by.values():
                    self._warn(reason.detail)
                # After the locks are released: this cleans up the outbox of this packet as well.
                for swarm_id in delivery_round.complete_swarms:
                    self._clean_up(swarm_id, deadline)

    @contextmanager
    def _tracking_connection(self) -> Iterator[None]:
        self.retry_after_seconds = 0.0
        try:
            yield
        except NOT_DELIVERED as error:
            self.is_connected = False
            if isinstance(error, ServerUnreachable):
                self.retry_after_seconds = error.retry_after_seconds
            # A server that is down needs no warning: that is what the outbox is for.
            if isinstance(error, UnrecognizedReply | TokenRefused | OSError):
                self._warn(str(error))
            raise
        except ShiftbossError:
            self.is_connected = True
            raise
        self.is_connected = True

    def _warn(self, reason: str) -> None:
        """Once per reason: the next attempt, seconds later, fails in the same way."""
        if reason not in self._warned_of:
            self._warned_of.add(reason)
            log.warning(
                "reports for %s wait in %s: %s", self.servers.address, self.outbox.folder, reason
            )

    def _clean_up(self, swarm_id: str, deadline: Deadline | None) -> None:
        try:
            remove_checkpoints(self.status(swarm_id, deadline))
        except ShiftbossError as error:
            log.warning("the checkpoints of %s are kept for now: %s", swarm_id, error.detail)


class DeliveryRound:
    """What a deliverer does while it holds the lock of the outbox.

    `complete_swarms` are swarms that an answer called complete. `blocked_by` has, by swarm, the
    refusal that keeps its reports waiting although the server answers.
    """

    def __init__(self, outbox: Outbox, client: HttpClient, deadline: Deadline | None) -> None:
        self.complete_swarms: set[str] = set()
        self.blocked_by: dict[str, ShiftbossError] = {}
        self._outbox = outbox
        self._client = client
        self._deadline = deadline

    def deliver_all(self) -> None:
        for file, entry in self._waiting():
            self._deliver_unattended(file, entry)

    def deliver_up_to(self, own: Entry) -> dict[str, Any]:
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
            # It must not overtake older reports, so it gets the error that blocks them.
            if own.swarm_id in self.blocked_by:
                raise self.blocked_by[own.swarm_id]
            answer = self._post(own)
        except ServerUnreachable:
            raise
        except ShiftbossError:
            file.unlink(missing_ok=True)
            raise
        file.unlink(missing_ok=True)
        return answer

    def _deliver_unattended(self, file: Path, entry: Entry) -> None:
        if entry.swarm_id in self.blocked_by:
            return
        try:
            self._post(entry)
        except ServerUnreachable:
            raise
        except _PERMANENT as error:
            self._outbox.reject(file, error.detail)
        except ShiftbossError as error:
            self.blocked_by[entry.swarm_id] = error
        else:
            file.unlink(missing_ok=True)

    def _post(self, entry: Entry) -> dict[str, Any]:
        accepted = "registered" if entry.operation == "register" else "acknowledged"
        request = ServerRequest(
            path=swarm_path(entry.swarm_id, entry.operation),
            body=entry.body,
            key=entry.key,
            members=(accepted,),
            timeout=self._deadline.timeout if self._deadline else TIMEOUT,
        )
        answer = self._client.send_blocking(request).answer
        if answer[accepted] is not True:
            raise UnrecognizedReply(f"the reply has {accepted!r}, but it is not true")
        if answer.get("swarm_complete") is True:
            self.complete_swarms.add(entry.swarm_id)
        return answer
