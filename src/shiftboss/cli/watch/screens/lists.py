"""A list of which only the rows on the screen are ever drawn, however long it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from rich.segment import Segment
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from shiftboss.cli.watch.model.cells import style_of

Row = TypeVar("Row")
Row_co = TypeVar("Row_co", covariant=True)


class RowSource(Protocol[Row_co]):
    """The rows. `row_of` a key is None if there is no such row; `headings` cannot be selected."""

    def __len__(self) -> int: ...
    def __getitem__(self, row: int, /) -> Row_co: ...
    def row_of(self, key: str, /) -> int | None: ...
    def headings(self) -> list[int]: ...


class RowList(ScrollView, Generic[Row], can_focus=True):
    """The selection is a key and not a number: rows that come and go do not move it, and it stays
    where it is on the screen."""

    DEFAULT_CSS = "RowList { height: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "down", show=False),
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("pagedown,ctrl+d", "page(1)", "page down", show=False),
        Binding("pageup,ctrl+u", "page(-1)", "page up", show=False),
        Binding("home,g", "first", "first", show=False),
        Binding("end,G", "last", "last", show=False),
        Binding("right", "group(1)", "next group", show=False),
        Binding("left", "group(-1)", "previous group", show=False),
        Binding("enter", "open", "open", show=False),
    ]

    class Selected(Message):
        """Another row is selected, or the selected row has changed."""

    class Opened(Message):
        pass

    def __init__(
        self,
        source: RowSource[Row],
        key_of: Callable[[Row], str | None],
        draw: Callable[[Row, int], list[Segment]],
        **names: Any,
    ) -> None:
        """`key_of` is None for a heading. `draw` gets a row and the width."""
        super().__init__(**names)
        self._source = source
        self._key_of = key_of
        self._draw = draw
        self.key: str | None = None
        self._row = 0
        self._chosen_before: str | None = None

    @property
    def selected(self) -> Row | None:
        return self._source[self._row] if self.key is not None else None

    def update(self) -> None:
        """The source has changed."""
        row = self._source.row_of(self.key) if self.key is not None else None
        moved = 0 if row is None else row - self._row
        was_in_sight = self._is_in_sight(self._row)
        size = Size(self.scrollable_content_region.width, len(self._source))
        if self.virtual_size != size:
            self.virtual_size = size
        if row is not None:
            self._row = row
            if moved and self.scroll_offset.y:
                self.scroll_to(y=self.scroll_offset.y + moved, animate=False, force=True)
            if was_in_sight:
                self._show_row(row)
        else:
            self._select(self._nearest(self._row, 1), scrolls=bool(self.key))
        self.refresh()
        self.post_message(self.Selected())

    def select(self, key: str) -> None:
        row = self._source.row_of(key)
        if row is not None:
            self._select(row)

    def before_filter(self) -> None:
        """Rows are about to be left out, and perhaps the selected one is among them."""
        self._chosen_before = self.key

    def after_filter(self) -> None:
        """All rows are back. Selects what was selected before, unless the user has chosen another
        row since."""
        self.select(self._chosen_before or self.key or "")
        self._chosen_before = None

    def _is_in_sight(self, row: int) -> bool:
        top = self.scroll_offset.y
        return top <= row < top + self.scrollable_content_region.height

    def _choose(self, row: int, *, scrolls: bool = True) -> None:
        """The person selects it."""
        self._chosen_before = None
        self._select(row, scrolls=scrolls)

    def _nearest(self, row: int, step: int) -> int:
        """The row itself, or the next one that can be selected, in this direction or else back."""
        last = len(self._source) - 1
        row = max(0, min(row, last))
        for candidate in (row, row + step, row - step):
            if 0 <= candidate <= last and self._key_of(self._source[candidate]) is not None:
                return candidate
        return row

    def _select(self, row: int, *, scrolls: bool = True) -> None:
        self._row = row
        self.key = self._key_of(self._source[row]) if len(self._source) else None
        if scrolls:
            self._show_row(row)
        self.refresh()
        self.post_message(self.Selected())

    def _show_row(self, row: int) -> None:
        """With the heading above it, if that is next to it."""
        height = self.scrollable_content_region.height
        top = self.scroll_offset.y
        first = row - 1 if row - 1 in self._source.headings() else row
        if first < top:
            self.scroll_to(y=first, animate=False, force=True)
        elif row >= top + height:
            self.scroll_to(y=row - height + 1, animate=False, force=True)

    def action_move(self, step: int) -> None:
        self._choose(self._nearest(self._row + step, step))

    def action_page(self, step: int) -> None:
        height = max(self.scrollable_content_region.height - 1, 1)
        self._choose(self._nearest(self._row + step * height, step))

    def action_first(self) -> None:
        self._choose(self._nearest(0, 1))

    def action_last(self) -> None:
        self._choose(self._nearest(len(self._source) - 1, -1))

    def action_group(self, step: int) -> None:
        headings = self._source.headings()
        current = max((number for number, row in enumerate(headings) if row < self._row), default=0)
        chosen = current + step
        if headings and 0 <= chosen < len(headings):
            self._choose(self._nearest(headings[chosen], 1))

    def action_open(self) -> None:
        if self.key is not None:
            self.post_message(self.Opened())

    def on_click(self, event: Click) -> None:
        row = self.scroll_offset.y + event.y
        if not 0 <= row < len(self._source) or self._key_of(self._source[row]) is None:
            return
        if row == self._row:
            self.action_open()
        else:
            self._choose(row, scrolls=False)

    def on_resize(self) -> None:
        self.virtual_size = Size(self.scrollable_content_region.width, len(self._source))

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        row = self.scroll_offset.y + y
        if row >= len(self._source):
            return Strip.blank(width, self.rich_style)
        segments = self._draw(self._source[row], width)
        if row == self._row and self.key is not None:
            # Without the colours of its parts, which would become those of the background.
            style = style_of("reverse" if self.has_focus else "bold")
            segments = [Segment(text, style) for text, _, _ in segments]
        return Strip(segments).adjust_cell_length(width)
