"""What the demo saw: events of the server and words of the workers, from several threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from shiftboss.cli.event_stream import StreamEvent
from shiftboss.errors import ShiftbossError

STEP_SECONDS: Final = 25.0

Word = dict[str, Any]


class DemoFailed(ShiftbossError):
    code = "demo_failed"
    title = "The demo went wrong"


class Record:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._failure: str | None = None
        self.events: list[StreamEvent] = []
        self.words: list[Word] = []

    def add_event(self, event: StreamEvent) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    def add_word(self, word: Word) -> None:
        with self._changed:
            self.words.append(word)
            self._changed.notify_all()

    def fail(self, why: str) -> None:
        with self._changed:
            self._failure = self._failure or why
            self._changed.notify_all()

    def notice(self) -> None:
        """Something outside of the record changed: those who wait look again."""
        with self._changed:
            self._changed.notify_all()

    def wait_for(self, what: str, condition: Callable[[], bool]) -> None:
        """Until the condition holds. Raises DemoFailed when something broke or time is up."""
        with self._changed:
            self._changed.wait_for(lambda: self._failure or condition(), STEP_SECONDS)
            if self._failure:
                raise DemoFailed(self._failure)
            if not condition():
                raise DemoFailed(f"waited {STEP_SECONDS:.0f} s in vain: {what}")

    def completed(self, packet_id: int) -> list[str]:
        """The tasks of the packet that the server counted, in its order."""
        return [
            event.data["task_id"]
            for event in self.events
            if event.event == "progress_update"
            and event.data["packet_id"] == packet_id
            and event.data["status"] == "completed"
        ]

    def has_event(self, kind: str, **data: object) -> bool:
        return any(
            event.event == kind and data.items() <= event.data.items() for event in self.events
        )

    def words_of(self, packet_id: int, said: str) -> list[Word]:
        return [
            word for word in self.words if word["packet_id"] == packet_id and word["said"] == said
        ]

    def queued(self) -> list[Word]:
        """The reports that could not be delivered at once."""
        return [word for word in self.words if word["queued"]]
