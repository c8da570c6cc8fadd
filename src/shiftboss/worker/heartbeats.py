"""Heartbeats for a task, sent from a thread so that a busy event loop does not stop them."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable
from typing import Final

from shiftboss.client.bus_client import BusClient
from shiftboss.client.errors import ServerUnreachable
from shiftboss.errors import ShiftbossError
from shiftboss.protocol.bus import LEASE_SECONDS_MAX, LEASE_SECONDS_MIN

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS: Final = 20.0


def lease_seconds(heartbeat_seconds: float) -> int:
    """Three intervals: two heartbeats in a row may get lost before the lease ends."""
    return min(max(math.ceil(3 * heartbeat_seconds), LEASE_SECONDS_MIN), LEASE_SECONDS_MAX)


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
        self._members = {
            "name": worker,
            "bead_id": bead_id,
            "epoch": epoch,
            "lease_seconds": lease_seconds(seconds),
        }
        self._stopped = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._run, name="shiftboss-heartbeats", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            if self._is_lost():
                if not self._stopped.is_set():
                    self._on_lost()
                return
            self._stopped.wait(self._seconds)

    def _is_lost(self) -> bool:
        try:
            answer = self._client.call_once("heartbeat", self._members)
        except ServerUnreachable as error:
            log.info("heartbeat for %s not delivered: %s", self._bead_id, error.detail)
            return False
        except ShiftbossError as error:
            log.warning("lost the task %s: %s", self._bead_id, error.detail)
            return True
        return (answer["bead_id"], answer["epoch"]) != (self._bead_id, self._epoch)
