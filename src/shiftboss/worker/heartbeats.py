"""Heartbeats for a task, sent from a thread so that a busy event loop does not stop them."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable
from typing import Any, Final, Protocol

from shiftboss.client.bus_client import BusClient
from shiftboss.client.errors import ServerUnreachable
from shiftboss.errors import ShiftbossError
from shiftboss.protocol.bus import LEASE_SECONDS_MAX, LEASE_SECONDS_MIN

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS: Final = 20.0
# How long the answer to the last report of a task may take after the refusal of a heartbeat.
CROSSING_SECONDS: Final = 1.0


def lease_seconds(heartbeat_seconds: float) -> int:
    """Three intervals: two heartbeats in a row may get lost before the lease ends."""
    return min(max(math.ceil(3 * heartbeat_seconds), LEASE_SECONDS_MIN), LEASE_SECONDS_MAX)


class Heartbeats(Protocol):
    """What sends the heartbeats of a task, from `start` to `stop`."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


# Gets the client, the worker, the task, its epoch, the interval in seconds, and what to call when
# the server says that the worker no longer holds the task.
StartHeartbeats = Callable[[BusClient, str, str, int, float, Callable[[], None]], Heartbeats]


def heartbeat_members(worker: str, bead_id: str, epoch: int, seconds: float) -> dict[str, object]:
    lease = {"lease_seconds": lease_seconds(seconds)}
    return {"name": worker, "bead_id": bead_id, "epoch": epoch} | lease


class HeartbeatThread:
    """Sends one heartbeat at once and then one every `seconds`.

    Calls `on_lost`, once, when the server says that the worker no longer holds the task.
    """

    def __init__(
        self,
        client: BusClient,
        worker: str,
        bead_id: str,
        epoch: int,
        seconds: float,
        on_lost: Callable[[], None],
    ) -> None:
        self._client = client
        self._bead_id = bead_id
        self._epoch = epoch
        self._seconds = seconds
        self._on_lost = on_lost
        self._members = heartbeat_members(worker, bead_id, epoch, seconds)
        self._stopped = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._run, name="shiftboss-heartbeats", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            reason = self._reason_of_loss()
            if reason is not None:
                # The heartbeat may have crossed the last report of the task, which stops this.
                if not self._stopped.wait(CROSSING_SECONDS):
                    log.warning("lost the task %s: %s", self._bead_id, reason, extra=self._facts())
                    self._on_lost()
                return
            self._stopped.wait(self._seconds)

    def _facts(self) -> dict[str, dict[str, object]]:
        """For the log: this thread does not know what its worker works on."""
        return {"facts": {"task": self._bead_id, "epoch": self._epoch}}

    def _reason_of_loss(self) -> str | None:
        try:
            answer = self._client.call_once("heartbeat", self._members)
        except ServerUnreachable as error:
            log.info(
                "heartbeat for %s not delivered: %s",
                self._bead_id,
                error.detail,
                extra=self._facts(),
            )
            return None
        except ShiftbossError as error:
            return error.detail
        if is_held(answer, self._bead_id, self._epoch):
            return None
        return "the worker holds another task"


def is_held(answer: dict[str, Any], bead_id: str, epoch: int) -> bool:
    """Whether the answer to a heartbeat is about this attempt."""
    return (answer["bead_id"], answer["epoch"]) == (bead_id, epoch)
