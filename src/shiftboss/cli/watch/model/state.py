"""The state of the screen: the watched swarm, its board, the inbox, and the connection."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shiftboss.cli.watch.model.actions import Selection
from shiftboss.cli.watch.model.cards import Board
from shiftboss.cli.watch.model.inbox import InboxRows, Item
from shiftboss.cli.watch.model.summary import Summary
from shiftboss.cli.watch.model.workers import Workers
from shiftboss.errors import ShiftbossError


@dataclass
class Model:
    """`chosen` is the swarm that was named, or None to watch the newest that has work. `offset_ms`
    is by how much the clock of the server is ahead of ours. `is_loaded`: the board is complete."""

    chosen: str | None = None
    swarm_id: str | None = None
    swarms: Sequence[Mapping[str, Any]] = ()
    board: Board = field(default_factory=Board)
    inbox: InboxRows = field(default_factory=InboxRows)
    workers: Workers = field(default_factory=Workers)
    summary: Summary | None = None
    lost: ShiftbossError | None = None
    lost_at: float = 0.0
    refused: ShiftbossError | None = None
    is_offline: bool = False
    is_loaded: bool = False
    address: str = ""
    offset_ms: int = 0

    def now_ms(self) -> int:
        """The time of the server."""
        return int(time.time() * 1000) + self.offset_ms

    def target(self, task_id: str) -> Selection:
        """The target of the keys if this task is selected."""
        swarm_id = self.swarm_id or ""
        items = [item for item in self.inbox.of_task(swarm_id, task_id) if item.task_id]
        return Selection(swarm_id, task_id, self.board.get(task_id), items)

    def target_of(self, item: Item) -> Selection:
        """The same for an item of the inbox, which may be of another swarm."""
        of_task = self.inbox.of_task(item.swarm_id, item.task_id) if item.task_id else []
        others = [other for other in of_task if other.key != item.key and other.task_id]
        card = self.board.get(item.task_id) if item.swarm_id == self.swarm_id else None
        return Selection(item.swarm_id, item.task_id, card, [item, *others])


def newest_with_work(swarms: Sequence[Mapping[str, Any]]) -> str | None:
    """The newest swarm in which something runs or waits, else the newest that has any task. The
    list has the newest first."""
    choices = (
        lambda swarm: swarm["status"] in ("running", "waiting"),
        lambda swarm: swarm["bus"]["total"] or swarm["workers_registered"],
        lambda _: True,
    )
    for is_chosen in choices:
        for swarm in swarms:
            if is_chosen(swarm):
                return str(swarm["swarm_id"])
    return None
