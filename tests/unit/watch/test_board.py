"""The board: groups in their order, cards that stay where they are, changes that cost little."""

from __future__ import annotations

import random
from typing import Any

import pytest
from rich.cells import cell_len
from rich.segment import Segment

from shiftboss.cli.watch.model.card_lines import board_head, context_segment, row_segments
from shiftboss.cli.watch.model.cards import COLUMNS, Board, BoardCard, Heading
from shiftboss.cli.watch.model.cells import count, fitted, fitted_name, money

pytestmark = pytest.mark.requirement("OWN-04")

NOW_MS = 1_800_000_000_000


def card(task_id: str, column: str = "waiting", **members: Any) -> BoardCard:
    base = {"bead_id": task_id, "title": f"Title of {task_id}", "column": column, "status": "open"}
    return BoardCard.of({"created_at": 1, "updated_at": 1, **base, **members})


def rows(board: Board) -> list[str]:
    found = (board[row] for row in range(len(board)))
    return [
        f"{row.column.word} {row.cards}" if isinstance(row, Heading) else row.task_id
        for row in found
    ]


def test_what_needs_a_person_comes_first_and_what_is_done_last() -> None:
    board = Board()
    board.put(card(name, name) for name in reversed(COLUMNS))
    assert rows(board) == [
        row for name, column in COLUMNS.items() for row in (f"{column.word} 1", name)
    ]
    assert board.headings() == list(range(0, 14, 2))


def test_waiting_cards_are_in_the_order_of_the_plan_and_ended_ones_newest_first() -> None:
    board = Board()
    board.put([card("late", created_at=9), card("early"), card("urgent", priority=5, created_at=9)])
    board.put([card("old", "done", ended_at=5), card("new", "done", ended_at=7)])
    assert rows(board) == ["waiting 3", "urgent", "early", "late", "done 2", "new", "old"]


def test_a_card_that_moves_is_in_its_new_group_only() -> None:
    board = Board()
    board.put([card("a"), card("b")])
    board.put([card("a", "running", started_at=3)])
    assert rows(board) == ["running 1", "a", "waiting 1", "b"]
    assert (board.row_of("a"), board.row_of("b"), board.row_of("c")) == (1, 3, None)
    board.keep_only({"b"})
    assert rows(board) == ["waiting 1", "b"]
    assert board.total == 1


def test_the_filter_finds_words_and_follows_changes() -> None:
    board = Board()
    board.put(
        [card("login", agent="claude"), card("cart", agent="codex", reason="waits for login")]
    )
    board.filter("CLAUDE login")
    assert rows(board) == ["waiting 1", "login"]
    board.put([card("cart", agent="claude", reason="waits for login")])
    assert rows(board) == ["waiting 2", "cart", "login"]
    assert board.row_of("cart") == 1
    board.filter("nothing")
    assert (len(board), board.total, board.row_of("cart")) == (0, 2, None)
    board.filter("")
    assert len(board) == 3


def test_any_sequence_of_changes_leaves_every_card_where_row_of_says() -> None:
    chance = random.Random(7)
    board, columns = Board(), list(COLUMNS)
    for _ in range(2000):
        name = f"t-{chance.randrange(60)}"
        if chance.random() < 0.1:
            board.remove([name])
        else:
            members = {"ended_at": chance.randrange(9), "priority": chance.randrange(3)}
            board.put([card(name, chance.choice(columns), **members)])
    shown = {
        row.task_id
        for row in map(board.__getitem__, range(len(board)))
        if isinstance(row, BoardCard)
    }
    assert len(shown) == board.total
    assert all(
        isinstance(row := board[board.row_of(name) or 0], BoardCard) and row.task_id == name
        for name in shown
    )


def test_a_column_of_a_newer_server_is_shown_as_waiting() -> None:
    assert card("a", "levitating").column == "waiting"


@pytest.mark.parametrize("width", [20, 80, 110, 200])
def test_every_line_is_as_wide_as_the_screen_and_has_no_control_characters(width: int) -> None:
    hostile = "[bold]x[/] \x1b[31m \u202e \t 漢字 " * 9
    foreign = {"title": hostile, "agent": hostile, "reason": hostile, "step": hostile}
    usage = {"dollars": 1234.5, "context_usage": 0.9, "ci": "failed"}
    for column in COLUMNS:
        line = row_segments(card(hostile, column, **foreign, **usage), NOW_MS, width)
        text = _text(line)
        assert text.isprintable()
        assert width >= 80 or cell_len(text) >= width
        assert width < 80 or cell_len(text) == width
    assert width < 80 or cell_len(_text(board_head(width))) == width


def _text(line: list[Segment]) -> str:
    return "".join(segment.text for segment in line)


@pytest.mark.parametrize(("usage", "style"), [(None, ""), (0.69, ""), (0.7, "yellow")])
def test_a_context_stands_out_from_where_a_checkpoint_is_asked_for(
    usage: float | None, style: str
) -> None:
    shown = context_segment(usage)
    assert str(shown.style or "") == style
    assert cell_len(shown.text) == 4


def test_a_cancelled_task_does_not_look_done() -> None:
    done, cancelled = card("a", "done", status="done"), card("b", "done", status="cancelled")
    marks = [_text(row_segments(each, 1, 80))[0] for each in (done, cancelled)]
    assert marks == ["✓", "-"]
    assert cancelled.matches(["cancelled"])
    assert not cancelled.matches(["done"])


def test_texts_fit_their_cells() -> None:
    assert fitted("abc", 5) == "abc  "
    assert fitted("abc", 5, right=True) == "  abc"
    assert fitted("abcdef", 4) == "abc…"
    assert fitted("漢字漢字", 4) == "漢 …"
    assert fitted("a\nb", 6) == "a\\nb  "
    assert fitted("abc", 0) == ""


def test_names_of_workers_keep_their_number() -> None:
    assert fitted_name("login-links-3", 12) == "login-lin…-3"
    assert fitted_name("login-3", 12) == "login-3     "
    assert fitted_name("cleaner", 5) == "clea…"
    assert fitted_name("漢字漢字-12", 8) == "漢字…-12"
    assert fitted_name("links-1234", 8) == "links-1…"
    assert fitted_name("a\nb-long-name-1", 8) == "a\\nb-…-1"


def test_money_and_counts_are_short() -> None:
    assert [money(amount) for amount in (None, 0.4, 12.3, 1234)] == ["", "$0.40", "$12", "$1.2k"]
    assert [count(number) for number in (0, 950, 12_000, 3_400_000)] == ["", "950", "12k", "3.4M"]
