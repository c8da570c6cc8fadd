"""The inbox: everything that waits for a person, over all swarms that are watched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rich.segment import Segment

from shiftboss.cli.common.times import span
from shiftboss.cli.watch.model.cells import segment

KIND_CELLS: Final = 13
_TASK_CELLS: Final = 18
_AGE_CELLS: Final = 4
# The name of each kind, and the key that resolves it.
KINDS: Final = {
    "question": ("question", "a"),
    "permission": ("permission", "a"),
    "dispute": ("dispute", "a"),
    "scope": ("more files", "s"),
    "review": ("review", "y"),
    "budget": ("budget", "b"),
    "pause": ("paused", "p"),
    "stuck_claim": ("stuck claim", "r"),
    "escalation": ("escalation", "a"),
    "failed": ("failed", "r"),
    "refused_start": ("cannot start", "r"),
    "landing": ("to land", ""),
    "not_running": ("not running", ""),
    "dependency": ("dependency", ""),
}


@dataclass(frozen=True, slots=True)
class Item:
    """Something that waits for a person."""

    kind: str
    swarm_id: str
    task_id: str
    title: str
    text: str
    command: str
    also: tuple[str, ...]
    since: int
    question_id: int | None
    request_id: int | None
    paths: tuple[str, ...]
    commit: str
    budget: Mapping[str, Any]

    @classmethod
    def of(cls, members: Mapping[str, Any]) -> Item:
        return cls(
            kind=str(members.get("kind") or ""),
            swarm_id=str(members.get("swarm_id") or ""),
            task_id=str(members.get("bead_id") or ""),
            title=str(members.get("title") or ""),
            text=str(members.get("text") or ""),
            command=str(members.get("command") or ""),
            also=tuple(members.get("also") or ()),
            since=int(members.get("since") or 0),
            question_id=members.get("question_id"),
            request_id=members.get("request_id"),
            paths=tuple(members.get("paths") or ()),
            commit=str(members.get("commit") or ""),
            budget=members.get("budget") or {},
        )

    @property
    def key(self) -> str:
        """The same while it waits."""
        number = self.request_id or self.question_id or ""
        return f"{self.kind} {self.swarm_id} {self.task_id} {number}"


class InboxRows:
    """At most as many items as the server sends; `total` counts all."""

    def __init__(self) -> None:
        self._items: list[Item] = []
        self._rows: dict[str, int] = {}
        self.total = 0

    def replace(self, items: Iterable[Item], total: int) -> None:
        self._items = list(items)
        self._rows = {item.key: row for row, item in enumerate(self._items)}
        self.total = total

    def of_task(self, swarm_id: str, task_id: str) -> list[Item]:
        return [
            item
            for item in self._items
            if item.swarm_id == swarm_id and item.task_id in (task_id, "")
        ]

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, row: int) -> Item:
        return self._items[row]

    def row_of(self, key: str) -> int | None:
        return self._rows.get(key)

    def headings(self) -> list[int]:
        return []


def item_segments(item: Item, now_ms: int, width: int) -> list[Segment]:
    word, key = KINDS.get(item.kind, (item.kind, ""))
    rest = width - KIND_CELLS - _TASK_CELLS - _AGE_CELLS - 7
    style = "bold red" if item.kind in ("failed", "escalation", "stuck_claim") else "bold yellow"
    return [
        segment(f" {key or ' '} ", 3, "bold"),
        segment(word, KIND_CELLS, style),
        segment(" ", 1),
        segment(item.task_id or item.swarm_id, _TASK_CELLS),
        segment(" ", 1),
        segment(span((now_ms - item.since) / 1000) if item.since else "", _AGE_CELLS, right=True),
        segment("  ", 2),
        segment(item.text, max(rest, 0)),
    ]


def inbox_head(width: int) -> list[Segment]:
    rest = max(width - KIND_CELLS - _TASK_CELLS - _AGE_CELLS - 7, 0)
    names = (("", 3), ("WHAT", KIND_CELLS + 1), ("TASK", _TASK_CELLS + 1), (" AGE", _AGE_CELLS + 2))
    return [segment(name, cells, "dim") for name, cells in (*names, ("WHY", rest))]
