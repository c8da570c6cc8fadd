"""The base of the row classes: the session, the added events, and whether anything was written."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum, auto
from typing import Any, Final, Protocol

from pydantic_core import to_json

from shiftboss.protocol.events import Event, EventKind
from shiftboss.protocol.states import WorkerState
from shiftboss.protocol.trace_ids import trace_id_of
from shiftboss.rules.access.actors import SERVER, Actor
from shiftboss.rules.notifications.kinds import NOTIFIED
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.poll_acks import PollAck
from shiftboss.store.monitoring.measures import Measure, Measurement

Row = Sequence[Any]
Parameters = Mapping[str, object]


class Prefetch(Enum):
    """Reads that a use case is about to make."""

    ADD = auto()
    SUBMIT = auto()
    QUEUE = auto()
    POLL = auto()
    REPORT = auto()
    HEARTBEAT = auto()
    FINISH = auto()
    DRAIN = auto()


class Session(Protocol):
    """A connection that runs named queries. Each dialect implements one. The epochs of new attempts
    are above `epoch_floor`."""

    epoch_floor: int

    def fetch_one(self, query: str, parameters: Parameters) -> Row | None: ...

    def fetch_all(self, query: str, parameters: Parameters) -> list[Row]: ...

    def prefetch(self, use: Prefetch, parameters: Parameters) -> None:
        """The reads that will follow may be made together with the next one."""
        ...

    def execute(self, query: str, parameters: Parameters) -> int:
        """Run the query; how many rows were changed."""
        ...

    def write(self, query: str, parameters: Parameters) -> object:
        """Run the query at some time before the commit, and before any other that follows."""
        ...

    def write_one(self, query: str, parameters: Parameters) -> bool:
        """The same, for one that changes one row. Whether it did."""
        ...

    def announce_settings(self) -> None:
        """With the commit, tell other servers that the settings of the deployment changed."""
        ...


class ParkedPolls(Protocol):
    """The polls that wait on this server, for use cases that choose a worker. Called on the threads
    of the store. `is_offline`: there is no server, so no worker can be reached."""

    is_offline: bool

    def parked_workers(self, swarm_id: str) -> Collection[str]:
        """The names of the workers. It may change at any time."""
        ...

    def reserve_poll(self, swarm_id: str, worker: str) -> bool:
        """Whether a poll of the worker is parked. If so, it gets the task that the caller assigns:
        from its event, or by asking the store again before it times out."""
        ...

    def reserved_ack(self, swarm_id: str, worker: str) -> PollAck | None:
        """How the reserved poll acknowledges what it gets; None if its worker does that."""
        ...


class NoParkedPolls:
    is_offline = False

    def parked_workers(self, swarm_id: str) -> Collection[str]:  # noqa: ARG002
        return ()

    def reserve_poll(self, swarm_id: str, worker: str) -> bool:  # noqa: ARG002
        return False

    def reserved_ack(self, swarm_id: str, worker: str) -> PollAck | None:  # noqa: ARG002
        return None


NO_PARKED_POLLS: Final = NoParkedPolls()


def event_text(data: Mapping[str, object]) -> str:
    """The data of an event as it is stored: one line of JSON, the same for the same data."""
    return to_json(data).decode()


# An assignment has the first columns of a row; some rows have more.
ASSIGNMENT_COLUMNS: Final = len(Assignment._fields)
_STATES: Final = {state.value: state for state in WorkerState}


def _flag(value: object) -> bool | None:
    """SQLite has no booleans and returns 0 or 1."""
    return None if value is None else bool(value)


def to_assignment(row: Row) -> Assignment:
    return Assignment._make(
        (
            *row[:3],
            _STATES[row[3]],
            *row[4:14],
            _flag(row[14]),
            _flag(row[15]),
            *row[16 : ASSIGNMENT_COLUMNS - 1],
            bool(row[ASSIGNMENT_COLUMNS - 1]),
        )
    )


class TransactionPart:
    """`event_ids` are the last event ids of swarms, as far as the session knows them."""

    def __init__(
        self,
        session: Session,
        event_ids: dict[str, int] | None = None,
        polls: ParkedPolls = NO_PARKED_POLLS,
    ) -> None:
        self._session = session
        self.polls = polls
        self.actor: Actor = SERVER
        self._event_ids = {} if event_ids is None else event_ids
        self.events: list[Event] = []
        self.measurements: Sequence[Measurement] = ()
        self.wrote = False

    @property
    def epoch_floor(self) -> int:
        return self._session.epoch_floor

    def measure(
        self,
        measure: Measure,
        value: float,
        label: str = "",
        task: tuple[str, str] | None = None,
    ) -> None:
        trace_id = None if task is None else trace_id_of(*task)
        self.measurements = (*self.measurements, Measurement(measure, value, label, trace_id))

    def prefetch(
        self,
        use: Prefetch,
        swarm_id: str,
        task_id: str | None = None,
        **others: str | int | bytes | None,
    ) -> None:
        self._session.prefetch(use, {"swarm_id": swarm_id, "task_id": task_id, **others})

    def _write(self, query: str, parameters: Parameters) -> None:
        self.wrote = True
        self._session.write(query, parameters)

    def _write_one(self, query: str, parameters: Parameters) -> bool:
        """For a guarded write of a row that the use case has read and holds."""
        self.wrote = True
        return self._session.write_one(query, parameters)

    def _change(self, query: str, parameters: Parameters) -> int:
        """How many rows were changed: known only after a round trip to the database."""
        self.wrote = True
        return self._session.execute(query, parameters)

    def add_event(
        self,
        swarm_id: str,
        kind: EventKind,
        at_ms: int,
        data: Mapping[str, object],
        *,
        task_id: str | None = None,
        report_key: bytes | None = None,
    ) -> Event:
        text = event_text(data)
        event_id = self._next_event_id(swarm_id)
        self._write(
            "add_event",
            {
                "swarm_id": swarm_id,
                "event_id": event_id,
                "kind": kind.value,
                "at_ms": at_ms,
                "task_id": task_id,
                "report_key": report_key,
                "data": text,
                "actor": self.actor.name,
            },
        )
        if kind in NOTIFIED:
            # With the event, so that no crash loses it.
            self._write("add_to_outbox", {"swarm_id": swarm_id, "event_id": event_id})
        event = Event(swarm_id, event_id, kind.value, at_ms, text, self.actor.name)
        self.events.append(event)
        return event

    def _next_event_id(self, swarm_id: str) -> int:
        last = self._event_ids.get(swarm_id)
        if last is None:
            row = self._session.fetch_one("last_event_id", {"swarm_id": swarm_id})
            last = (row[0] if row else None) or 0
        self._event_ids[swarm_id] = last + 1
        return last + 1
