"""The progress of a run, as people see it: its tasks, and one line per event."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from textwrap import shorten
from typing import Any, Final, Literal

LINES_KEPT: Final = 200
LOG_NAME: Final = "run.log"

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
    "blocked",
    "in review",
    "failed",
    "cancelled",
]


# The stage of a task when a run starts, by its status on the server.
_EARLIER_STAGES: Final[Mapping[str, Stage]] = {
    "done": "accepted",
    "queued": "queued",
    "failed": "failed",
    "cancelled": "cancelled",
}

NAMED_MAX: Final = 3
SUBJECT_CHARACTERS_MAX: Final = 100


@dataclass(slots=True)
class TaskProgress:
    """One task, as shown in one row of the table."""

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
    unverified: str | None = None
    landed: str | None = None
    error: str | None = None
    started_at: float | None = None
    ended_at: float | None = None


@dataclass(slots=True)
class Progress:
    """Written by the run, read by a view. Listeners are called with every line that is logged.
    `answer` takes the id of one of the `questions`, and the answer that a person has typed.
    `on_login_link` gets the link to the page, if there is a terminal to show it on: whoever reads
    it can log in."""

    rows: dict[str, TaskProgress] = field(default_factory=dict)
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=LINES_KEPT))
    listeners: list[Callable[[str, str], None]] = field(default_factory=list)
    questions: Sequence[Mapping[str, Any]] = ()
    answer: Callable[[int, str], None] | None = None
    on_login_link: Callable[[str], None] | None = None

    def row(self, bead_id: str, title: str = "") -> TaskProgress:
        return self.rows.setdefault(bead_id, TaskProgress(bead_id, title))

    def continue_task(self, view: Mapping[str, Any], used: Mapping[str, Any] | None) -> None:
        """Start with what earlier runs of the plan have done for the task, and what it cost."""
        row = self.row(view["bead_id"])
        row.attempt, row.worker = view.get("attempt", 0), view["worker"]
        row.landed, row.receipt_id = view.get("landed_commit"), view.get("receipt_id")
        if used is not None:
            row.tokens, row.dollars = used["tokens"], used["dollars"]
        row.stage = "landed" if row.landed else _EARLIER_STAGES.get(view["status"], "waiting")

    def log(self, bead_id: str, text: str) -> None:
        """Add a line about a task. An empty id means that the line is about the whole run."""
        self.lines.append(f"{bead_id}: {text}" if bead_id else text)
        for listener in self.listeners:
            listener(bead_id, text)

    def accepted(self, bead_id: str, receipt_id: str) -> None:
        """Called by the attempt and by the landing queue, in any order; logged once. The landing
        queue does not wait until the agent has exited."""
        row = self.row(bead_id)
        if row.receipt_id != receipt_id:
            row.receipt_id = receipt_id
            self.stage(bead_id, "accepted")
            self.log(bead_id, f"accepted, receipt {receipt_id}")

    def accepted_with(self, bead_id: str, handoff: Mapping[str, Any]) -> None:
        """Show what of an accepted task was waived, and what could not be verified. `handoff` is
        the server's view of it, with the claim that was accepted."""
        self._waived(bead_id, handoff["waivers"])
        verdict = (handoff["last_claim"] or {}).get("verdict") or {}
        text = unverified_text(verdict.get("checks") or ())
        row = self.row(bead_id)
        if text and row.unverified != text:
            row.unverified = text
            self.log(bead_id, f"not verified: {text}")

    def _waived(self, bead_id: str, waivers: Iterable[Mapping[str, str]]) -> None:
        """Which checks were waived, and by whom."""
        text = ", ".join(
            dict.fromkeys(f"{waiver['check']} by {waiver['granted_by']}" for waiver in waivers)
        )
        row = self.row(bead_id)
        if text and row.waived != text:
            row.waived = text
            self.log(bead_id, f"waived: {text}")

    def stage(self, bead_id: str, stage: Stage, doing: str = "") -> None:
        row = self.row(bead_id)
        if row.stage != stage and stage in ("preparing", "working") and row.started_at is None:
            row.started_at = time.monotonic()
        if stage in ("landed", "failed", "cancelled"):
            row.ended_at = time.monotonic()
        row.stage, row.doing = stage, doing


class RunLog:
    """Listens to `Progress` and appends each line to `run.log`. Write errors are ignored: a full
    disk must not stop the run."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / LOG_NAME

    def __call__(self, bead_id: str, text: str) -> None:
        line = " ".join((f"{bead_id}: {text}" if bead_id else text).split())
        with contextlib.suppress(OSError), self._file.open("a", encoding="utf-8") as log:
            log.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}  {line}\n")


def unverified_text(checks: Iterable[Mapping[str, Any]]) -> str:
    """The criteria and the other checks of a verdict that are unverifiable; "" if none is."""
    unverified = (check for check in checks if check["outcome"] == "unverifiable")
    names = list(dict.fromkeys(map(_name, unverified)))
    more = len(names) - NAMED_MAX
    return ", ".join([*names[:NAMED_MAX], *([f"and {more} more"] if more > 0 else [])])


def _name(check: Mapping[str, Any]) -> str:
    subject = shorten(check.get("subject") or "", SUBJECT_CHARACTERS_MAX, placeholder=" …")
    if check["check"] == "criterion":
        return subject
    return f"{check['check']} of {subject}" if subject else str(check["check"])
