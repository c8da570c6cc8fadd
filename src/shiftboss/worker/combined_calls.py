"""What a worker asks of one call where the server understands it: a poll that acknowledges, and a
report that brings the next task along.

Older servers refuse the new members and change nothing; from then on, the calls are
separate. A report does not wait for the next task: it brings what there is.
"""

from __future__ import annotations

import time
from typing import Any, Final

from shiftboss.client.bus_client import POLL_MS
from shiftboss.client.http_client import new_idempotency_key
from shiftboss.errors import InvalidRequest, ShiftbossError
from shiftboss.worker.heartbeats import lease_seconds

_MEMBERS: Final = frozenset({"poll", "ack", "lease_seconds", "timeout_ms"})
# A task that waited longer for its worker may be lost: the same poll is sent again.
FRESH_SECONDS: Final = 1.0


class CombinedCalls:
    """Of one worker. Its sessions share them: one may take what another has left."""

    def __init__(self, heartbeat_seconds: float) -> None:
        self._lease = {"ack": True, "lease_seconds": lease_seconds(heartbeat_seconds)}
        self._is_understood = True
        # A poll keeps its key until it has brought a task: the answer may have been lost.
        self._poll_key = new_idempotency_key()
        # What a report has brought along, the key of that report, and when it came.
        self._next: tuple[dict[str, Any], str, float] | None = None

    def poll(self, worker: str) -> tuple[dict[str, object], str | None]:
        """The members and the key of a poll."""
        members = {"name": worker, "timeout_ms": POLL_MS}
        if not self._is_understood:
            return members, None
        return members | self._lease, self._poll_key

    def report(self, key: str) -> dict[str, object]:
        """The further members of the report that ends a task. `key` is that of the report."""
        if not self._is_understood:
            return {}
        self._poll_key = key
        return {"poll": True, "timeout_ms": 0, **self._lease}

    def is_refused(self, error: ShiftbossError) -> bool:
        """Whether the server does not know the members. The call is repeated without them."""
        if self._is_understood and isinstance(error, InvalidRequest) and error.field in _MEMBERS:
            self._is_understood = False
            return True
        return False

    def note_delivery(self) -> None:
        """The poll has brought its task; the next one is another poll."""
        self._poll_key = new_idempotency_key()

    def keep(self, polled: dict[str, Any] | None, key: str) -> None:
        """What the report with this key has brought along."""
        if polled is not None and polled.get("task") is not None:
            self.note_delivery()
            self._next = (polled, key, time.monotonic())

    def take(self) -> dict[str, Any] | None:
        """What the last report has brought along just now. If that was a while ago, the next poll
        asks for it again: it gets the same attempt with its whole lease, or another task."""
        kept, self._next = self._next, None
        if kept is None:
            return None
        polled, key, came_at = kept
        if time.monotonic() - came_at < FRESH_SECONDS:
            return polled
        self._poll_key = key
        return None

    def leave(self) -> dict[str, Any] | None:
        """What the last report has brought along, and nobody takes."""
        kept, self._next = self._next, None
        return None if kept is None else kept[0]
