"""Delivering without a caller, until nothing waits: in a thread, or in a process of its own."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Final

from shiftboss.client.backoff import pauses
from shiftboss.client.server_address import Server
from shiftboss.system.file_locks import LockHeldError
from shiftboss.worker.delivery import Delivery
from shiftboss.worker.outbox import Outbox

log = logging.getLogger(__name__)

COURIER_SECONDS_MAX: Final = 24 * 60 * 60


class BackgroundDelivery:
    """A thread of its own, so that it goes on between two event loops and while a loop is busy."""

    def __init__(self, deliverer: Delivery) -> None:
        self._deliverer = deliverer
        self._lock = threading.Lock()
        self._stop: threading.Event | None = None

    def is_active(self) -> bool:
        """When it is, whatever was appended before this call will be delivered by it."""
        with self._lock:
            return self._stop is not None

    def start(self) -> None:
        with self._lock:
            if self._stop is None:
                self._stop = threading.Event()
                threading.Thread(
                    target=self._run, args=(self._stop,), name="shiftboss-redelivery", daemon=True
                ).start()

    def stop(self) -> None:
        with self._lock:
            if self._stop is not None:
                self._stop.set()
                self._stop = None

    def _run(self, stop: threading.Event) -> None:
        for pause in pauses():
            if stop.wait(pause):
                return
            try:
                if self._deliverer.deliver_waiting() and self._ended(stop):
                    return
            except Exception:
                log.exception("reports wait in %s", self._deliverer.outbox.folder)

    def _ended(self, stop: threading.Event) -> bool:
        with self._lock:
            if self._stop is not stop:
                return True
            if self._deliverer.outbox.files():
                return False
            self._stop = None
            return True


def deliver_left_behind(folder: str, address: str) -> None:
    """What a courier does: one per outbox, for a day at most."""
    outbox = Outbox(Path(folder))
    deliverer = Delivery(outbox, Server.at(address))
    deadline = time.monotonic() + COURIER_SECONDS_MAX
    # Looked at again after the lock is given back: a later courier that found it held has left.
    while outbox.files() and time.monotonic() < deadline:
        try:
            with outbox.being_courier():
                _deliver_until(deadline, deliverer)
        except LockHeldError:
            return


def _deliver_until(deadline: float, deliverer: Delivery) -> None:
    for pause in pauses():
        if deliverer.deliver_waiting() or time.monotonic() > deadline:
            return
        time.sleep(pause)
