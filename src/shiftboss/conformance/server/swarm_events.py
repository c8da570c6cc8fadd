"""Document 000: the stream of server-sent events."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import httpx2

from shiftboss.conformance.checks import Broken, CheckList
from shiftboss.conformance.server.harness import ServerHarness
from shiftboss.conformance.server.swarm_reports import completion, progress, registration
from shiftboss.conformance.shapes import expect

EVENTS: Final[CheckList[ServerHarness]] = CheckList()

LIVE_SECONDS_MAX: Final = 5.0


class StreamedEvent(NamedTuple):
    id: int
    name: str
    data: dict[str, Any]


class EventReader:
    """An open stream. `events` are those that were read so far."""

    def __init__(self, response: httpx2.Response) -> None:
        self.events: list[StreamedEvent] = []
        self._response = response
        self._deadline = 0.0
        self._lines = self._split()

    def _split(self) -> Iterator[str]:
        """The lines of the stream. Each part that arrives is a moment to look at the clock."""
        rest = ""
        for part in self._response.iter_text():
            *lines, rest = (rest + part.replace("\r\n", "\n")).split("\n")
            yield from lines
            if time.monotonic() > self._deadline:
                return

    def wait_for(self, name: str, seconds: float) -> StreamedEvent:
        """Read until an event of this name. Raises Broken if none comes in time."""
        self._deadline = time.monotonic() + seconds
        fields: dict[str, str] = {}
        try:
            for line in self._lines:
                field, _, value = line.partition(":")
                fields[field] = value.removeprefix(" ")
                if not line and "data" in fields:
                    self.events.append(_event(fields))
                    fields = {}
                    if self.events[-1].name == name:
                        return self.events[-1]
        except httpx2.HTTPError as error:
            raise Broken(f"no event {name}: {type(error).__name__}; {self._seen()}") from None
        raise Broken(f"no event {name} within {seconds:g} s; {self._seen()}")

    def _seen(self) -> str:
        return f"seen: {[event.name for event in self.events]}"


def _event(fields: dict[str, str]) -> StreamedEvent:
    try:
        return StreamedEvent(int(fields["id"]), fields["event"], json.loads(fields["data"]))
    except (KeyError, ValueError) as error:
        raise Broken(f"an event cannot be read: {fields} ({error})") from None


@contextmanager
def reading(
    harness: ServerHarness, swarm_id: str, query: str = "", headers: Mapping[str, str] | None = None
) -> Iterator[EventReader]:
    path = f"/swarm/{swarm_id}/events{query}"
    with harness.calls.stream(path, headers or {}, harness.seconds) as response:
        content_type = response.headers.get("content-type", "")
        if not content_type.startswith("text/event-stream"):
            raise Broken(f"GET {path} answers {response.status_code} {content_type}")
        yield EventReader(response)


@EVENTS.add("events", "000", "SW-09", "The events have the document's names, ids and data")
def events(harness: ServerHarness) -> None:
    swarm_id = _played(harness)
    with reading(harness, swarm_id, "?since_event_id=0") as reader:
        reader.wait_for("worker_complete", harness.seconds)
        named = {event.name: event for event in reader.events}
        ids = [event.id for event in reader.events]
    if ids != sorted(set(ids)):
        raise Broken(f"the ids do not grow: {ids}")
    expect(
        _data(named, "worker_registered"), {"packet_id": 1, "packet_name": "backend-api-1"}, "it"
    )
    counts = {"packet_id": 1, "tasks_completed": 1, "tasks_total": 10}
    expect(_data(named, "progress_update"), counts, "progress_update")
    expect(_data(named, "worker_complete"), {"packet_id": 1, "final_commit": "def5678901"}, "it")


@EVENTS.add("events-resume", "000", "SW-09", "A stream resumes after since_event_id, Last-Event-ID")
def events_resume(harness: ServerHarness) -> None:
    swarm_id = _played(harness)
    with reading(harness, swarm_id) as reader:
        last = reader.wait_for("worker_complete", harness.seconds)
        position = next(event.id for event in reader.events if event.name == "progress_update")
    resumed: list[tuple[str, dict[str, str]]] = [
        (f"?since_event_id={position}", {}),
        ("", {"Last-Event-ID": str(position)}),
    ]
    for query, headers in resumed:
        with reading(harness, swarm_id, query, headers) as reader:
            reader.wait_for("worker_complete", harness.seconds)
            ids = [event.id for event in reader.events]
        if ids[0] <= position or last.id not in ids:
            raise Broken(f"after event {position} ({query or headers}) it sent {ids}")


@EVENTS.add("events-live", "000", "SW-09", "A new event reaches an open stream at once")
def events_live(harness: ServerHarness) -> None:
    swarm_id = harness.new_swarm()
    seconds = min(LIVE_SECONDS_MAX, harness.seconds)
    with reading(harness, swarm_id) as reader:
        harness.accepted(swarm_id, "register", registration())
        reader.wait_for("worker_registered", seconds)
        harness.accepted(swarm_id, "progress", progress(1))
        reader.wait_for("progress_update", seconds)


def _played(harness: ServerHarness) -> str:
    swarm_id = harness.new_swarm()
    harness.accepted(swarm_id, "register", registration())
    harness.accepted(swarm_id, "progress", progress(1))
    harness.accepted(swarm_id, "complete", completion())
    return swarm_id


def _data(named: dict[str, StreamedEvent], name: str) -> dict[str, Any]:
    if name not in named:
        raise Broken(f"there is no event {name}: {sorted(named)}")
    return named[name].data
