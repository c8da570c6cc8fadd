"""Choosing the swarm to watch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from rich.segment import Segment
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from shiftboss.cli.views.overview import work_text
from shiftboss.cli.watch.model.cells import segment
from shiftboss.cli.watch.screens.lists import RowList

Members = Mapping[str, Any]


class Swarms:
    """The newest first."""

    def __init__(self, swarms: Sequence[Members]) -> None:
        self._swarms = list(swarms)
        self._rows = {str(swarm["swarm_id"]): row for row, swarm in enumerate(swarms)}

    def __len__(self) -> int:
        return len(self._swarms)

    def __getitem__(self, row: int) -> Members:
        return self._swarms[row]

    def row_of(self, key: str) -> int | None:
        return self._rows.get(key)

    def headings(self) -> list[int]:
        return []


class SwarmChoice(ModalScreen[str | None]):
    DEFAULT_CSS = """
    SwarmChoice { align: center bottom; background: transparent; }
    SwarmChoice > Vertical {
        width: 100%; height: 70%; padding: 0 1;
        border-top: solid ansi_bright_black; background: ansi_default;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,w", "dismiss(None)", "back")]

    def __init__(self, swarms: Sequence[Members], current: str | None) -> None:
        super().__init__()
        self._current = current
        self._list: RowList[Members] = RowList(Swarms(swarms), _key_of, _draw)

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Text("Watch which swarm? enter chooses · esc goes back", "bold"))
            yield self._list

    def on_mount(self) -> None:
        self._list.update()
        if self._current:
            self._list.select(self._current)
        self._list.focus()

    def on_row_list_opened(self) -> None:
        self.dismiss(self._list.key)


def _key_of(swarm: Members) -> str:
    return str(swarm["swarm_id"])


def _draw(swarm: Members, width: int) -> list[Segment]:
    return [
        segment(swarm["swarm_id"], 26),
        segment(swarm["status"], 10),
        segment(work_text(swarm["bus"]), 34),
        segment(f"  {swarm['feature']}", max(width - 70, 0), "dim"),
    ]
