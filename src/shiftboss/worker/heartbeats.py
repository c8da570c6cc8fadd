"""Heartbeats for a task, sent from a thread so that a busy event loop does not stop them."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar, Final, Protocol
from weakref import WeakKeyDictionary

from shiftboss.client.bus_client import BusClient
from shiftboss.client.errors import ServerUnreachable
from shiftboss.errors import ShiftbossError
from shiftboss.protocol.bus import LEASE_SECONDS_MAX, LEASE_SECONDS_MIN

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS: Final = 20.0
# How long the answer to the last report of a task may take after the refusal of a heartbeat.
CROSSING_SECONDS: Final = 1.0
# After which a thread without tasks ends.
IDLE_SECONDS: Final = 60.0


def lease_seconds(heartbeat_seconds: float) -> int:
    """Three intervals: two heartbeats in a row may get lost before the lease ends."""
    return min(max(math.ceil(3 * heartbeat_seconds), LEASE_SECONDS_MIN), LEASE_SECONDS_MAX)


class Heartbeats(Protocol):
    """What sends the heartbeats of a task, from `start` to `stop`."""

    def start(self, *, lease_runs: bool = False) -> None:
        """`lease_runs`: the acknowledgement has begun a lease of the wanted length, so that the
        first heartbeat has time."""
        ...

    def stop(self) -> None: ...


# Gets the client, the worker, the task, its epoch, the interval in seconds, and what to call when
# the server says that the worker no longer holds the task.
StartHeartbeats = Callable[[BusClient, str, str, int, float, Callable[[], None]], Heartbeats]


def heartbeat_members(worker: str, bead_id: str, epoch: int, seconds: float) -> dict[str, object]:
    lease = {"lease_seconds": lease_seconds(seconds)}
    return {"name": worker, "bead_id": bead_id, "epoch": epoch} | lease


class TaskHeartbeats:
    """Sends a heartbeat every `seconds`, from the thread of its client.

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
        self.seconds = seconds
        self._on_lost = on_lost
        self._worker = worker
        self.is_stopped = False
        self._thread: HeartbeatThread | None = None

    def start(self, *, lease_runs: bool = False) -> None:
        self._thread = HeartbeatThread.of(self._client)
        self._thread.add(self, self.seconds if lease_runs else 0.0)

    def stop(self) -> None:
        self.is_stopped = True
        if self._thread is not None:
            self._thread.remove(self)

    def _facts(self) -> dict[str, dict[str, object]]:
        """For the log: this thread does not know what its worker works on."""
        return {"facts": {"task": self._bead_id, "epoch": self._epoch}}

    def send(self) -> str | None:
        """Why the task is lost, if it is."""
        members = heartbeat_members(self._worker, self._bead_id, self._epoch, self.seconds)
        try:
            answer = self._client.call_once("heartbeat", members)
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

    def lose(self, reason: str) -> None:
        log.warning("lost the task %s: %s", self._bead_id, reason, extra=self._facts())
        self._on_lost()


class HeartbeatThread:
    """One thread for the tasks of a client, one after the other. Most tasks end before their first
    heartbeat is due, and never wake it. It ends when it has had nothing to do for a while."""

    _of_clients: ClassVar[WeakKeyDictionary[BusClient, HeartbeatThread]] = WeakKeyDictionary()
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self) -> None:
        self.process = os.getpid()
        self._changed = threading.Condition()
        # When the next heartbeat of each task is due, by the monotonic clock.
        self._due: dict[TaskHeartbeats, float] = {}
        self._wakes_at = math.inf
        self._runs = False

    @classmethod
    def of(cls, client: BusClient) -> HeartbeatThread:
        """A fork has no threads, and needs one of its own."""
        with cls._lock:
            found = cls._of_clients.get(client)
            if found is None or found.process != os.getpid():
                found = cls._of_clients[client] = cls()
            return found

    def add(self, task: TaskHeartbeats, seconds: float) -> None:
        due = time.monotonic() + seconds
        with self._changed:
            self._due[task] = due
            if not self._runs:
                self._start()
            elif due < self._wakes_at:
                self._changed.notify()

    def remove(self, task: TaskHeartbeats) -> None:
        with self._changed:
            self._due.pop(task, None)

    def _start(self) -> None:
        self._runs = True
        threading.Thread(target=self._run, name="shiftboss-heartbeats", daemon=True).start()

    def _run(self) -> None:
        try:
            self._send_due()
        except BaseException:
            # `on_lost` is the caller's. Its error must not end the heartbeats of other tasks.
            with self._changed:
                self._runs = False
                if self._due:
                    self._start()
            raise

    def _send_due(self) -> None:
        while (task := self._next()) is not None:
            reason = task.send()
            if reason is None or task.is_stopped:
                continue
            # The heartbeat may have crossed the last report of the task, which stops this.
            time.sleep(CROSSING_SECONDS)
            if not task.is_stopped:
                self.remove(task)
                task.lose(reason)

    def _next(self) -> TaskHeartbeats | None:
        """Wait for the task whose heartbeat is due first. None: the thread ends."""
        idle_since = time.monotonic()
        with self._changed:
            while True:
                now = time.monotonic()
                task = min(self._due, key=self._due.__getitem__, default=None)
                if task is not None and self._due[task] <= now:
                    self._due[task] = now + task.seconds
                    return task
                if task is None and now - idle_since >= IDLE_SECONDS:
                    self._runs = False
                    return None
                self._wakes_at = self._due[task] if task is not None else now + IDLE_SECONDS
                self._changed.wait(self._wakes_at - now)


def is_held(answer: dict[str, Any], bead_id: str, epoch: int) -> bool:
    """Whether the answer to a heartbeat is about this attempt."""
    return (answer["bead_id"], answer["epoch"]) == (bead_id, epoch)
