"""The main screen: a header, the views, and a footer with the keys that apply."""

from __future__ import annotations

import time
from typing import ClassVar, Final

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import ContentSwitcher, Input, Static

from shiftboss.cli.common.output import printable
from shiftboss.cli.watch.link.live import Live
from shiftboss.cli.watch.model.actions import Selection
from shiftboss.cli.watch.model.cards import BoardCard
from shiftboss.cli.watch.model.inbox import Item
from shiftboss.cli.watch.model.summary import header_line
from shiftboss.cli.watch.screens.decisions import DECISIONS
from shiftboss.cli.watch.screens.keys import VIEWS, footer_text, tabs_text
from shiftboss.cli.watch.screens.log_view import LogView
from shiftboss.cli.watch.screens.notices import empty_text, notice_text
from shiftboss.cli.watch.screens.task_view import TaskDocument
from shiftboss.cli.watch.screens.views import (
    board_view,
    card_peek,
    inbox_view,
    item_peek,
    worker_peek,
    workers_view,
)

TICK_SECONDS: Final = 1.0
MESSAGE_SECONDS: Final = 15.0


class MainScreen(Screen[None]):
    """`target` is what the keys act on: the selected row of the list that was looked at last."""

    # Not of the app: they do not apply while a dialog is open.
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(key, f"app.view('{name}')", name, show=False) for key, name in VIEWS.items()),
        Binding("tab", "app.next_view(1)", "next view", show=False, priority=True),
        Binding("shift+tab", "app.next_view(-1)", "previous view", show=False, priority=True),
        *(Binding(key, f"app.decide('{key}')", key, show=False) for key in DECISIONS),
        Binding("p", "app.pause", "pause", show=False),
        Binding("slash", "app.filter", "filter", show=False),
        Binding("escape", "app.leave", "back", show=False),
        Binding("w", "app.choose_swarm", "swarm", show=False),
        Binding("question_mark", "app.help", "help", show=False),
        Binding("q,ctrl+c", "app.quit", "quit", show=False),
    ]

    def __init__(self, live: Live) -> None:
        super().__init__()
        self._live, self.model = live, live.model
        self.view = "board"
        self.target: Selection | None = None
        self._message_until = 0.0
        model = live.model
        self.lists = {
            "board": board_view(model),
            "inbox": inbox_view(model),
            "workers": workers_view(model),
        }
        self.task_view, self.log_view = TaskDocument(live), LogView(live)

    def compose(self) -> ComposeResult:
        yield Static(id="header")
        yield Static(id="notice")
        yield Static(id="tabs")
        with ContentSwitcher(initial="board"):
            yield from self.lists.values()
            yield self.task_view
            yield self.log_view
        yield Static(id="message")
        yield Input(placeholder="words to filter by", id="filter")
        yield Static(id="keys")

    def on_mount(self) -> None:
        self.set_interval(TICK_SECONDS, self._tick)
        self.focused_view.focus()
        self.draw()

    @property
    def focused_view(self) -> Widget:
        if self.view in self.lists:
            return self.lists[self.view].list
        return self.task_view if self.view == "task" else self.log_view.document

    def show_view(self, name: str) -> None:
        self.view = name
        self._live.show_workers(name == "workers")
        self.query_one(ContentSwitcher).current = name
        self.focused_view.focus()
        self.draw()

    def draw(self) -> None:
        """Only the view that is visible."""
        self._draw_header()
        self._draw_notice()
        self._draw_line("#tabs", tabs_text(self.view, self.model.inbox.total))
        if self.view in self.lists:
            self.lists[self.view].update(empty_text(self.model, self.view))
        else:
            self._draw_task()
        self._draw_keys()

    def say(self, text: str, style: str = "") -> None:
        """Below the view, for a while; on as many lines as it takes."""
        self._message_until = time.monotonic() + MESSAGE_SECONDS if text else 0.0
        self._draw_lines("#message", Text(printable(text), style))

    def on_row_list_selected(self) -> None:
        """More about the selected row, and the keys that apply to it."""
        if self.view not in self.lists:
            return
        shown = self.lists[self.view]
        row = shown.list.selected
        if isinstance(row, BoardCard):
            self.target = self.model.target(row.task_id)
            shown.peek(card_peek(row))
        elif isinstance(row, Item):
            self.target = self.model.target_of(row)
            shown.peek(item_peek(row))
        elif row is not None:
            self.target = self.model.target(str(row.get("task") or ""))
            shown.peek(worker_peek(row))
        else:
            self.target = None
            shown.peek(Text())
        self._draw_keys()

    def _tick(self) -> None:
        """Ages grow. The message about the last key disappears."""
        if self._message_until and time.monotonic() > self._message_until:
            self.say("")
        self._draw_header()
        if self.model.lost is not None:
            self._draw_notice()
        if self.view in self.lists:
            self.lists[self.view].list.refresh()

    def _draw_header(self) -> None:
        summary = self.model.summary
        if summary is None:
            name = printable(self.model.swarm_id or "shiftboss")
            self._draw_line("#header", Text(name, "bold", no_wrap=True, overflow="ellipsis"))
            return
        width = self.app.size.width - 2
        line = header_line(summary, self.model.inbox.total, self.model.now_ms(), width)
        self._draw_line("#header", line)

    def _draw_notice(self) -> None:
        self._draw_lines("#notice", notice_text(self.model))

    def _draw_keys(self) -> None:
        keys = self.target.keys() if self.target is not None else []
        summary = self.model.summary
        is_paused = summary is not None and summary.is_paused
        self._draw_line("#keys", footer_text(keys, is_paused=is_paused))

    def _draw_task(self) -> None:
        target = self.target
        if target is None or not target.task_id:
            return
        if target.swarm_id == self.model.swarm_id:
            target = self.target = self.model.target(target.task_id)
        if self.view == "task":
            self.task_view.show(target.swarm_id, target.task_id, target.card)
        else:
            self.log_view.show(target.swarm_id, target.task_id)

    def _draw_line(self, name: str, text: Text) -> None:
        self.query_one(name, Static).update(text, layout=False)

    def _draw_lines(self, name: str, text: Text) -> None:
        """Hidden if there is nothing to say. An unchanged message needs no new layout."""
        shown = self.query_one(name, Static)
        shown.display = bool(text)
        if shown.content != text:
            shown.update(text)
