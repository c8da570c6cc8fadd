"""What the demo shows: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import threading
import time
from collections import deque
from types import TracebackType
from typing import Any, Final, Self

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from shiftboss.cli.event_stream import StreamEvent
from shiftboss.cli.output import plain
from shiftboss.cli.sentences import sentence
from shiftboss.cli.tables import workers_table
from shiftboss.cli.times import now

LINES_SHOWN: Final = 8


class View:
    """Told from several threads; one at a time draws."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lock = threading.Lock()
        self._lines: deque[Text] = deque(maxlen=LINES_SHOWN)
        self._status: dict[str, Any] | None = None
        self._started_at = time.monotonic()
        self._live: Live | None = None
        self._closed = False

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._lock:
            self._closed = True
            if self._live is not None:
                self._live.stop()

    def say(self, text: str) -> None:
        """What the demo itself does."""
        self._add(Text(f"{self._seconds()}  {plain(text)}", style="bold yellow"))

    def hear(self, event: StreamEvent, status: dict[str, Any] | None) -> None:
        """An event, and how the swarm stands since then, if the server can say."""
        with self._lock:
            self._status = status or self._status
        self._add(Text(f"{self._seconds()}  {sentence(event)}"))

    def _seconds(self) -> str:
        return f"{time.monotonic() - self._started_at:5.1f} s"

    def _add(self, line: Text) -> None:
        with self._lock:
            if self._closed:
                return
            if self._live is None:
                self._console.print(line, soft_wrap=True)
                return
            self._lines.append(line)
            self._live.update(self._picture(), refresh=True)

    def _picture(self) -> Group:
        for line in self._lines:
            line.no_wrap, line.overflow = True, "ellipsis"
        if self._status is None:
            return Group(*self._lines)
        table = workers_table(self._status["workers"], self._console.width, now())
        done = f"{self._status['tasks_completed']} of {self._status['tasks_total']} tasks"
        head = Text(f"swarm {self._status['swarm_id']}: {self._status['status']}, {done}")
        return Group(head, table, Text(), *self._lines)
