"""A card as a line of the board."""

from __future__ import annotations

from typing import Final, NamedTuple

from rich.segment import Segment

from shiftboss.cli.common.times import span
from shiftboss.cli.watch.model.cards import BoardCard, Heading
from shiftboss.cli.watch.model.cells import count, fitted_name, money, segment, style_of
from shiftboss.rules.tasks.worker_protocol import check_context_threshold

_CI_MARKS: Final = {
    "pending": ("ci …", "yellow"),
    "passed": ("ci ✓", "green"),
    "failed": ("ci ✗", "bold red"),
    "unreachable": ("ci ?", "yellow"),
}
WIDE_COLUMNS_MIN: Final = 110
_FIXED_CELLS: Final = 2 + 1 + 1 + 4 + 1 + 6 + 1 + 4 + 1 + 4 + 2


class Layout(NamedTuple):
    """The cells of the columns that differ with the width of the screen."""

    task: int
    title: int
    agent: int
    text: int

    @classmethod
    def of(cls, width: int) -> Layout:
        task, agent = (20, 12) if width >= WIDE_COLUMNS_MIN else (17, 8)
        rest = max(width - _FIXED_CELLS - task - agent, 0)
        title = rest // 3 if width >= WIDE_COLUMNS_MIN else 0
        return cls(task, title, agent, max(rest - title - (1 if title else 0), 0))


def card_segments(card: BoardCard, now_ms: int, width: int) -> list[Segment]:
    layout, look = Layout.of(width), card.look
    ci, ci_style = _CI_MARKS.get(card.ci, ("", ""))
    gap = segment("", 1)
    quiet = "dim" if card.column == "done" else ""
    title = [segment(card.title, layout.title, quiet), gap] if layout.title else []
    return [
        segment(look.mark, 2, look.style),
        segment(card.task_id, layout.task, quiet),
        gap,
        *title,
        Segment(fitted_name(card.agent, layout.agent), style_of(quiet)),
        gap,
        segment(_age(card, now_ms), 4, quiet, right=True),
        gap,
        segment(money(card.dollars) or count(card.tokens), 6, quiet, right=True),
        gap,
        context_segment(card.context_usage),
        gap,
        segment(ci, 4, ci_style),
        segment("", 2),
        segment(_text(card, with_title=bool(title)), layout.text, quiet),
    ]


def _text(card: BoardCard, *, with_title: bool) -> str:
    """Why it is where it is. A card that needs no explanation shows its title instead."""
    text = card.text or ("" if with_title else card.title)
    return f"{card.state}: {text}" if card.column == "running" and card.state else text


def _age(card: BoardCard, now_ms: int) -> str:
    return span((now_ms - card.since) / 1000) if card.since else ""


def context_segment(usage: float | None) -> Segment:
    """It stands out once the worker is asked to write a checkpoint."""
    if usage is None:
        return segment("", 4)
    return segment(
        f"{usage:.0%}", 4, "yellow" if check_context_threshold(usage) else "", right=True
    )


def row_segments(row: BoardCard | Heading, now_ms: int, width: int) -> list[Segment]:
    return (
        heading_segments(row, width)
        if isinstance(row, Heading)
        else card_segments(row, now_ms, width)
    )


def heading_segments(heading: Heading, width: int) -> list[Segment]:
    column, cells = heading.column, max(width - 2, 0)
    text = f"{column.word.upper()} {heading.cards}"
    return [segment("", 2), segment(text, cells, column.style or "bold")]


def board_head(width: int) -> list[Segment]:
    layout = Layout.of(width)
    names = [("", 2), ("TASK", layout.task + 1)]
    if layout.title:
        names.append(("TITLE", layout.title + 1))
    names += [("AGENT", layout.agent + 1), (" AGE", 5), ("  COST", 7), (" CTX", 5), ("CI", 6)]
    return [segment(name, cells, "dim") for name, cells in (*names, ("WHY", layout.text))]
