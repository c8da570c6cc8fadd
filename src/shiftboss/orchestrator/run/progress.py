"""What a run shows to people: the tasks, what happens to them, and what is asked."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

LINES_KEPT: Final = 200

Stage = Literal[
    "waiting",
    "queued",
    "preparing",
    "working",
    "verifying",
    "accepted",
    "landing",
    "landed",
    "parked",
    "failed",
    "cancelled",
]


@dataclass(slots=True)
class TaskProgress:
    """One task as people see it."""

    bead_id: str
    title: str
    stage: Stage = "waiting"
    worker: str | None = None
    agent: str | None = None
    attempt: int = 0
    doing: str = ""
    tokens: int = 0
    dollars: float = 0.0
    receipt_id: str | None = None
    waived: str | None = None
    landed: str | None = None
    error: str | None = None
    started_at: float | None = None
    ended_at: float | None = None


@dataclass(slots=True)
class Progress:
    """Written by the run, read by a view. A listener hears each line that is worth reading."""

    rows: dict[str, TaskProgress] = field(default_factory=dict)
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=LINES_KEPT))
    listeners: list[Callable[[str, str], None]] = field(default_factory=list)

    def row(self, bead_id: str, title: str = "") -> TaskProgress:
        return self.rows.setdefault(bead_id, TaskProgress(bead_id, title))

    def say(self, bead_id: str, text: str) -> None:
        """A line about a task; with an empty id about the run."""
        self.lines.append(f"{bead_id}: {text}" if bead_id else text)
        for listener in self.listeners:
            listener(bead_id, text)

    def accepted(self, bead_id: str, receipt_id: str) -> None:
        """Told by whoever hears of it first: the attempt, or who lands the work, which does not
        wait for the last words of an agent."""
        row = self.row(bead_id)
        if row.receipt_id != receipt_id:
            row.receipt_id = receipt_id
            self.stage(bead_id, "accepted")
            self.say(bead_id, f"accepted, receipt {receipt_id}")

    def waived(self, bead_id: str, waivers: Iterable[Mapping[str, str]]) -> None:
        """Which checks somebody let pass for a task that is accepted: people must not miss it."""
        words = ", ".join(
            dict.fromkeys(f"{one['check']} by {one['granted_by']}" for one in waivers)
        )
        row = self.row(bead_id)
        if words and row.waived != words:
            row.waived = words
            self.say(bead_id, f"waived: {words}")

    def stage(self, bead_id: str, stage: Stage, doing: str = "") -> None:
        row = self.row(bead_id)
        if row.stage != stage and stage in ("preparing", "working") and row.started_at is None:
            row.started_at = time.monotonic()
        if stage in ("landed", "failed", "cancelled"):
            row.ended_at = time.monotonic()
        row.stage, row.doing = stage, doing
