"""A text that is scrolled: the facts of a task, or a log that grows."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final

from rich.console import Console, RenderableType
from rich.segment import Segment
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

LINES_MAX: Final = 5000


def drawn(renderables: Iterable[RenderableType], width: int) -> list[Strip]:
    """The lines of the renderables. Called in a thread: a long diff takes a while to wrap."""
    console = Console(file=io.StringIO(), width=max(width, 10), markup=False, emoji=False)
    lines: list[Strip] = []
    for renderable in renderables:
        rendered = console.render_lines(renderable, pad=False)
        lines += [Strip(Segment.simplify(line)) for line in rendered]
    return lines


class ScrolledText(ScrollView, can_focus=True):
    """`stops` are the lines that the arrows to the left and right go to."""

    DEFAULT_CSS = "ScrolledText { height: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", "down", show=False),
        Binding("k", "scroll_up", "up", show=False),
        Binding("ctrl+d", "page_down", "page down", show=False),
        Binding("ctrl+u", "page_up", "page up", show=False),
        Binding("g", "scroll_home", "first", show=False),
        Binding("G", "scroll_end", "last", show=False),
        Binding("right", "stop(1)", "next part", show=False),
        Binding("left", "stop(-1)", "previous part", show=False),
    ]

    def __init__(self, **names: Any) -> None:
        super().__init__(**names)
        self._lines: list[Strip] = []
        self._stops: Sequence[int] = ()

    @property
    def is_at_end(self) -> bool:
        return self.scroll_offset.y >= self.max_scroll_y

    def replace(self, lines: list[Strip], stops: Sequence[int] = ()) -> None:
        """It stays scrolled as it is, as far as there are lines."""
        self._lines, self._stops = lines[:LINES_MAX], stops
        self._resize()

    def extend(self, lines: Sequence[Strip]) -> None:
        """The oldest lines go when there are too many. At the end, it stays at the end."""
        follows = self.is_at_end
        self._lines += lines
        dropped = max(len(self._lines) - LINES_MAX, 0)
        del self._lines[:dropped]
        self._resize()
        if follows:
            self.scroll_end(animate=False, force=True)
        elif dropped:
            self.scroll_to(y=max(self.scroll_offset.y - dropped, 0), animate=False, force=True)

    def _resize(self) -> None:
        self.virtual_size = Size(self.scrollable_content_region.width, len(self._lines))
        self.refresh()

    def action_stop(self, step: int) -> None:
        top = self.scroll_offset.y
        if step > 0:
            chosen = next((stop for stop in self._stops if stop > top), None)
        else:
            chosen = next((stop for stop in reversed(self._stops) if stop < top), 0)
        if chosen is not None:
            self.scroll_to(y=chosen, animate=False, force=True)

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        line = self.scroll_offset.y + y
        if line >= len(self._lines):
            return Strip.blank(width, self.rich_style)
        return self._lines[line].adjust_cell_length(width)
