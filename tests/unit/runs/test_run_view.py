"""What a run shows fits a small terminal, and can be read without colour."""

from __future__ import annotations

import io

from rich.console import Console

from shiftboss.cli.views.runs import ROWS_SHOWN, outcome_lines, run_table
from shiftboss.orchestrator.run.plan_run import RunOutcome
from shiftboss.orchestrator.run.progress import Progress, TaskProgress


def drawn(rows: list[TaskProgress]) -> list[str]:
    screen = Console(file=io.StringIO(), width=80, color_system=None)
    screen.print(run_table(rows))
    assert isinstance(screen.file, io.StringIO)
    return [line.rstrip() for line in screen.file.getvalue().splitlines()]


def board_of(count: int) -> Progress:
    board = Progress()
    for number in range(count):
        row = board.row(f"task-{number}", f"Title {number}")
        row.worker, row.attempt, row.agent = "demo-1", 2, "claude"
        board.stage(row.bead_id, "working", "writes a very long story " * 10)
    return board


def test_a_row_says_stage_try_worker_and_what_is_done_in_eighty_columns() -> None:
    head, row = drawn(list(board_of(1).rows.values()))
    assert head.split() == ["task", "stage", "try", "worker", "doing"]
    assert row.split()[:5] == ["task-0", "working", "2", "demo-1", "writes"]
    assert row.endswith("…")
    assert len(row) <= 80


def test_columns_are_there_when_they_tell_something() -> None:
    board = board_of(2)
    board.row("task-0").agent = "codex"
    board.row("task-1").tokens = 12_345
    head, first, second = drawn(list(board.rows.values()))
    assert head.split() == ["task", "stage", "try", "worker", "agent", "tokens", "doing"]
    assert "codex" in first
    assert "12,345" in second


def test_what_does_not_fit_is_counted() -> None:
    lines = drawn(list(board_of(ROWS_SHOWN + 7).rows.values()))
    assert len(lines) == ROWS_SHOWN + 2
    assert lines[-1] == "... 7 more"


def test_words_of_others_play_no_tricks() -> None:
    board = Progress()
    board.row("task", "an \x1b[2J escape")
    assert "\\x1b[2J" in drawn(list(board.rows.values()))[1]


def test_a_check_that_was_waived_is_said_once_and_again_at_the_end() -> None:
    board = Progress()
    board.accepted("task", "r-1")
    board.waived("task", [])
    waivers = [
        {"check": "scope", "subject": "a.py", "granted_by": "ada"},
        {"check": "scope", "subject": "b.py", "granted_by": "ada"},
        {"check": "criteria", "subject": "*", "granted_by": "bob"},
    ]
    for _ in range(2):
        board.waived("task", waivers)
    assert list(board.lines)[1:] == ["task: waived: scope by ada, criteria by bob"]
    summary = [str(line) for line in outcome_lines(RunOutcome(done=True, landed=["task"]), board)]
    assert "landed    task  receipt r-1  waived: scope by ada, criteria by bob" in summary
