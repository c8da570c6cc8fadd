"""Events: one line each of the append-only record of a swarm."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class EventKind(StrEnum):
    SWARM_CREATED = "swarm_created"
    WORKER_REGISTERED = "worker_registered"
    PROGRESS_UPDATE = "progress_update"
    WORKER_COMPLETE = "worker_complete"
    WORKER_ERROR = "worker_error"
    RETRY_DUE = "retry_due"
    SWARM_COMPLETE = "swarm_complete"


class Event(NamedTuple):
    """`event_id` counts 1, 2, 3 ... inside its swarm, in the order of the commits."""

    swarm_id: str
    event_id: int
    kind: str
    at_ms: int
    data: str  # a JSON object

    def to_sse(self) -> bytes:
        """The bytes on an event stream. `data` is JSON without line breaks."""
        return f"id: {self.event_id}\nevent: {self.kind}\ndata: {self.data}\n\n".encode()
