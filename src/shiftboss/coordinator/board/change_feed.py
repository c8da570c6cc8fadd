"""The change feed: which tasks of which swarms have changed, put together for all readers at once.

It costs nothing without readers: the hub passes it events only while there are some. A burst of
changes becomes one frame, which is rendered once, however many readers there are. A frame only says
what to read again, so one that is lost is made good by a `reload`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any, Final

from pydantic_core import from_json, to_json

from shiftboss.coordinator.event_hub import Hub
from shiftboss.protocol.events import Event

FRAME_SECONDS: Final = 0.2
# The first change after a pause is sent at once, together with the other changes of the same
# request.
FIRST_SECONDS: Final = 0.02
# With many readers frames are rarer: each is a write to every one of them, and most then read.
READERS_PER_STEP: Final = 4
# The changes of a heartbeat (the step, the use of the context) are not events, and can wait.
HEARTBEAT_SECONDS: Final = 2.0
TASKS_MAX: Final = 200
BEHIND_FRAMES_MAX: Final = 50

HEARTBEAT: Final = "heartbeat"
RELOAD: Final = b"event: reload\ndata: {}\n\n"


class SwarmChange:
    """`tasks` is None if there are too many of them: everything has to be read again."""

    def __init__(self) -> None:
        self.last_event_id = 0
        self.kinds: dict[str, None] = {}
        self.tasks: dict[str, None] | None = {}

    def add(self, event: Event) -> None:
        self.last_event_id = max(self.last_event_id, event.event_id)
        self.kinds[event.kind] = None
        if self.tasks is not None:
            task_id = task_of(event)
            if task_id is not None:
                self.add_task(task_id)

    def add_task(self, task_id: str) -> None:
        if self.tasks is not None:
            self.tasks[task_id] = None
            if len(self.tasks) > TASKS_MAX:
                self.tasks = None

    def view(self) -> dict[str, Any]:
        return {
            "last_event_id": self.last_event_id,
            "tasks": None if self.tasks is None else list(self.tasks),
            "kinds": list(self.kinds),
        }


def task_of(event: Event) -> str | None:
    """The task that an event is about. A packet is the task `packet-N`."""
    data = from_json(event.data)
    task_id = data.get("bead_id")
    if task_id is None and "packet_id" in data:
        return f"packet-{data['packet_id']}"
    return task_id if isinstance(task_id, str) else None


class Frame:
    """One frame for all readers. A reader that is limited to a swarm gets what is about it."""

    def __init__(self, swarms: dict[str, SwarmChange]) -> None:
        self._swarms = swarms
        self._rendered: dict[str | None, bytes | None] = {}

    def for_reader(self, swarm_id: str | None) -> bytes | None:
        """None: nothing in it is for this reader."""
        if swarm_id not in self._rendered:
            self._rendered[swarm_id] = self._render(swarm_id)
        return self._rendered[swarm_id]

    def _render(self, only: str | None) -> bytes | None:
        views = {
            swarm_id: change.view()
            for swarm_id, change in self._swarms.items()
            if only in (None, swarm_id)
        }
        return b"event: changes\ndata: %b\n\n" % to_json({"swarms": views}) if views else None


class ChangeReader:
    """The changes that one reader has not read yet."""

    def __init__(self, swarm_id: str | None) -> None:
        self.swarm_id = swarm_id
        self.ended = False
        self._frames: deque[bytes] = deque()
        self._ready = asyncio.Event()

    def offer(self, frame: bytes) -> None:
        if len(self._frames) >= BEHIND_FRAMES_MAX:
            self._frames.clear()
            frame = RELOAD
        self._frames.append(frame)
        self._ready.set()

    def wake(self) -> None:
        """Let the reader look whether it may still read."""
        self._ready.set()

    def end(self) -> None:
        self.ended = True
        self._ready.set()

    async def wait(self, seconds: float) -> bool:
        """Whether there is something to read, or to look at, before the time is over."""
        try:
            async with asyncio.timeout(seconds):
                await self._ready.wait()
        except TimeoutError:
            return False
        return True

    def take(self) -> bytes:
        frames = b"".join(self._frames)
        self._frames.clear()
        if not self.ended:
            self._ready.clear()
        return frames


class ChangeFeed:
    """Used on the event loop only."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._readers: dict[ChangeReader, None] = {}
        self._batches: list[list[Event]] = []
        self._heartbeats: dict[str, dict[str, None]] = {}
        self._heartbeats_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._last_frame_at = 0.0
        # How many frames were made: data read since the last frame includes all changes that it
        # announced.
        self.frames = 0
        hub.on_close(self._close)

    def subscribe(self, swarm_id: str | None) -> ChangeReader:
        """`swarm_id`: the only swarm that the reader may see."""
        reader = ChangeReader(swarm_id)
        if self._hub.closed:
            reader.end()
        if not self._readers:
            self._hub.watch(self._on_commit)
            # Data read before may be older than changes that were in no frame.
            self.frames += 1
        self._readers[reader] = None
        return reader

    def unsubscribe(self, reader: ChangeReader) -> None:
        self._readers.pop(reader, None)
        if not self._readers:
            self._hub.unwatch()
            self._forget()

    @property
    def is_read(self) -> bool:
        return bool(self._readers)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is kept for a frame."""
        return self._timer is None and not (self._batches or self._heartbeats)

    def wake_readers(self) -> None:
        """The tokens have changed: some may have lost their access."""
        for reader in self._readers:
            reader.wake()

    def reload(self) -> None:
        """Events of other servers may have been missed."""
        self.frames += 1
        for reader in self._readers:
            reader.offer(RELOAD)

    def note_heartbeat(self, swarm_id: str, task_id: str) -> None:
        if self._readers:
            self._heartbeats.setdefault(swarm_id, {})[task_id] = None
            self._schedule(self._heartbeats_at + HEARTBEAT_SECONDS)

    def _on_commit(self, events: list[Event]) -> None:
        """On the hot path: the events are interpreted later, once for many."""
        self._batches.append(events)
        if self._timer is None:
            self._schedule(self._last_frame_at + self._interval())

    def _interval(self) -> float:
        return FRAME_SECONDS * max(1, len(self._readers) / READERS_PER_STEP)

    def _schedule(self, at: float) -> None:
        loop = asyncio.get_running_loop()
        at = max(at, loop.time() + FIRST_SECONDS)
        if self._timer is not None:
            if self._timer.when() <= at:
                return
            self._timer.cancel()
        self._timer = loop.call_at(at, self._make_frame)

    def _make_frame(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        self._last_frame_at = now
        swarms = _changes(event for batch in self._batches for event in batch)
        self._batches.clear()
        if now >= self._heartbeats_at + HEARTBEAT_SECONDS:
            self._add_heartbeats(swarms)
            self._heartbeats_at = now
        self.frames += 1
        frame = Frame(swarms)
        for reader in self._readers:
            body = frame.for_reader(reader.swarm_id)
            if body is not None:
                reader.offer(body)
        if self._heartbeats:
            self._schedule(self._heartbeats_at + HEARTBEAT_SECONDS)

    def _add_heartbeats(self, swarms: dict[str, SwarmChange]) -> None:
        for swarm_id, tasks in self._heartbeats.items():
            change = swarms.setdefault(swarm_id, SwarmChange())
            change.kinds[HEARTBEAT] = None
            for task_id in tasks:
                change.add_task(task_id)
        self._heartbeats.clear()

    def _forget(self) -> None:
        self._batches.clear()
        self._heartbeats.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close(self) -> None:
        self._forget()
        for reader in self._readers:
            reader.end()


def _changes(events: Iterable[Event]) -> dict[str, SwarmChange]:
    swarms: dict[str, SwarmChange] = {}
    for event in events:
        change = swarms.get(event.swarm_id)
        if change is None:
            change = swarms[event.swarm_id] = SwarmChange()
        change.add(event)
    return swarms
