"""Delivering reports without a caller: in a thread, or in a courier process after this one."""

from __future__ import annotations

import atexit
import logging
import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Final

from shiftboss.client.backoff import backoff_delays
from shiftboss.client.servers import Servers
from shiftboss.defaults import CA_VARIABLE, TOKEN_FILE_VARIABLE, TOKEN_VARIABLE
from shiftboss.system.file_locks import LockHeldError
from shiftboss.system.processes.descendants import python_argv
from shiftboss.worker.delivery import OutboxDelivery
from shiftboss.worker.outbox import Outbox

log = logging.getLogger(__name__)

COURIER_SECONDS_MAX: Final = 24 * 60 * 60

_couriers_at_exit: dict[Path, Servers] = {}


class BackgroundDelivery:
    """Retries in a thread, which also runs between two event loops and while a loop is busy."""

    def __init__(self, delivery: OutboxDelivery) -> None:
        self._delivery = delivery
        self._lock = threading.Lock()
        self._stop: threading.Event | None = None

    def is_active(self) -> bool:
        """If so, it will deliver everything that was appended before this call."""
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
        for delay in backoff_delays():
            if stop.wait(delay + self._delivery.retry_after_seconds):
                return
            try:
                if self._delivery.deliver_waiting() and self._is_finished(stop):
                    return
            except Exception:
                log.exception("reports wait in %s", self._delivery.outbox.folder)

    def _is_finished(self, stop: threading.Event) -> bool:
        with self._lock:
            if self._stop is not stop:
                return True
            if self._delivery.outbox.files():
                return False
            self._stop = None
            return True


def start_courier_at_exit(outbox: Outbox, servers: Servers) -> None:
    """When this process ends, start a courier if reports still wait in the outbox."""
    if os.environ.get("SHIFTBOSS_COURIER") != "0":
        _couriers_at_exit[outbox.folder] = servers


def start_courier_now(outbox: Outbox) -> None:
    """Do now, instead of at exit, what `start_courier_at_exit` has promised."""
    servers = _couriers_at_exit.pop(outbox.folder, None)
    if servers is not None and outbox.files():
        _start_courier(outbox, servers)


@atexit.register
def _start_all_couriers() -> None:
    for folder in list(_couriers_at_exit):
        try:
            start_courier_now(Outbox(folder))
        except Exception:
            # The other outboxes still need their couriers.
            log.exception("reports may stay in %s", folder)


def _start_courier(outbox: Outbox, servers: Servers) -> None:
    try:
        subprocess.run(
            python_argv("shiftboss.worker.courier", str(outbox.folder), str(servers.addresses)),
            env=_environment(servers),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            check=False,
        )
    except OSError as error:
        log.warning("reports stay in %s: the courier did not start: %s", outbox.folder, error)


def _environment(servers: Servers) -> dict[str, str]:
    """The token is in no argument, which other users can read. A file is named rather than read:
    the courier outlives tokens."""
    environment = dict(os.environ)
    if servers.token_file is not None:
        environment.pop(TOKEN_VARIABLE, None)
        environment[TOKEN_FILE_VARIABLE] = str(servers.token_file.absolute())
    elif servers.token is not None:
        environment[TOKEN_VARIABLE] = servers.token
    if servers.current.ca is not None:
        environment[CA_VARIABLE] = servers.current.ca
    return environment


def run_courier(folder: str, address: str) -> None:
    """Deliver until the outbox is empty, for a day at most. One courier per outbox."""
    outbox = Outbox(Path(folder))
    delivery = OutboxDelivery(outbox, Servers.at(address))
    deadline = time.monotonic() + COURIER_SECONDS_MAX
    # Checked again after the lock is released: a second courier that found it held has left.
    while outbox.files() and time.monotonic() < deadline:
        try:
            with outbox.courier_lock():
                _deliver_until(deadline, delivery)
        except LockHeldError:
            return


def _deliver_until(deadline: float, delivery: OutboxDelivery) -> None:
    for delay in backoff_delays():
        if delivery.deliver_waiting() or time.monotonic() > deadline:
            return
        time.sleep(delay + delivery.retry_after_seconds)
