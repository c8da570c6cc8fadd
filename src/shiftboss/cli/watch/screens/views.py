"""The views of the screen, each drawn from the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.segment import Segment, Segments
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Static

from shiftboss.cli.common.discovery import here_command
from shiftboss.cli.common.output import printable, printable_lines
from shiftboss.cli.watch.model.card_lines import board_head, row_segments
from shiftboss.cli.watch.model.cards import BoardCard, Heading
from shiftboss.cli.watch.model.inbox import Item, inbox_head, item_segments
from shiftboss.cli.watch.model.state import Model
from shiftboss.cli.watch.model.workers import Members, worker_segments, workers_head
from shiftboss.cli.watch.screens.lists import RowList, RowSource


class ListView(Vertical):
    """A head line, a list, and below it more about the selected row."""

    DEFAULT_CSS = """
    ListView > .head { height: 1; }
    ListView > .peek { height: 5; border-top: solid ansi_bright_black; padding: 0 1; }
    ListView > .empty { height: auto; padding: 1 2; display: none; }
    """

    def __init__(
        self,
        view: str,
        source: RowSource[Any],
        key_of: Callable[[Any], str | None],
        draw: Callable[[Any, int], list[Segment]],
        head: Callable[[int], list[Segment]],
    ) -> None:
        super().__init__(id=view)
        self.list: RowList[Any] = RowList(source, key_of, draw)
        self._head_of = head
        self._head = Static(classes="head")
        self._empty = Static(classes="empty")
        self._peek = Static(classes="peek")

    def compose(self) -> ComposeResult:
        yield self._head
        yield self._empty
        yield self.list
        yield self._peek

    def on_resize(self) -> None:
        self._head.update(Segments(self._head_of(self.size.width)))

    def update(self, empty: str) -> None:
        """`empty` says what would be here."""
        self._empty.display = bool(empty)
        if empty:
            self._empty.update(Text(printable_lines(empty)))
        self.list.update()

    def peek(self, text: Text) -> None:
        """The first line is cut off where it does not fit, so that the others stay in sight."""
        lines = text.split("\n", allow_blank=True)
        if lines:
            lines[0].truncate(max(self.size.width - 2, 10), overflow="ellipsis")
        self._peek.update(Text("\n").join(lines))


def board_view(model: Model) -> ListView:
    def draw(row: BoardCard | Heading, width: int) -> list[Segment]:
        return row_segments(row, model.now_ms(), width)

    def key_of(row: BoardCard | Heading) -> str | None:
        return row.task_id if isinstance(row, BoardCard) else None

    return ListView("board", model.board, key_of, draw, board_head)


def inbox_view(model: Model) -> ListView:
    def draw(item: Item, width: int) -> list[Segment]:
        return item_segments(item, model.now_ms(), width)

    return ListView("inbox", model.inbox, lambda item: item.key, draw, inbox_head)


def workers_view(model: Model) -> ListView:
    def draw(worker: Members, width: int) -> list[Segment]:
        return worker_segments(worker, model.now_ms(), width)

    def key_of(worker: Members) -> str:
        return str(worker.get("name"))

    return ListView("workers", model.workers, key_of, draw, workers_head)


def card_peek(card: BoardCard) -> Text:
    """The title, the whole reason, and the command that helps."""
    look = card.look
    text = Text().append(f"{look.mark} {look.word}  ", look.style)
    return _with_advice(text.append(printable(card.title), "bold"), card.text, card.command)


def item_peek(item: Item) -> Text:
    title = printable(item.title or item.task_id or item.swarm_id)
    return _with_advice(Text().append(title, "bold"), item.text, item.command)


def _with_advice(text: Text, reason: str, command: str) -> Text:
    if reason:
        text.append(f"\n{printable(reason)}")
    if command:
        text.append(f"\n{printable(here_command(command))}", "cyan")
    return text


def worker_peek(worker: Members) -> Text:
    text = Text().append(printable(worker.get("name", "")), "bold")
    facts = [worker.get("agent"), worker.get("model"), worker.get("milestone")]
    text.append("  " + printable(" · ".join(str(fact) for fact in facts if fact)))
    if worker.get("step"):
        text.append(f"\n{printable(worker['step'])}")
    return text
