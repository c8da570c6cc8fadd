"""The view of a run fits a small terminal and is readable without colour."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console, Group

from shiftboss.cli.views.answer_prompt import AnswerPrompt
from shiftboss.cli.views.runs import ROWS_SHOWN, RunView, narrow_lines, outcome_lines, run_table
from shiftboss.orchestrator.run.plan_run import RunOutcome
from shiftboss.orchestrator.run.progress import Progress, TaskProgress, unverified_text


def rendered(rows: list[TaskProgress], width: int = 80) -> list[str]:
    screen = Console(file=io.StringIO(), width=width, color_system=None)
    screen.print(run_table(rows) if width >= 80 else Group(*narrow_lines(rows)))
    assert isinstance(screen.file, io.StringIO)
    return [line.rstrip() for line in screen.file.getvalue().splitlines()]


def progress_of(count: int) -> Progress:
    progress = Progress()
    for number in range(count):
        row = progress.row(f"task-{number}", f"Title {number}")
        row.worker, row.attempt, row.agent = "demo-1", 2, "claude"
        progress.stage(row.bead_id, "working", "writes a very long story " * 10)
    return progress


def test_a_row_has_stage_attempt_worker_and_activity_in_eighty_columns() -> None:
    head, row = rendered(list(progress_of(1).rows.values()))
    assert head.split() == ["task", "stage", "try", "worker", "doing"]
    assert row.split()[:5] == ["task-0", "working", "2", "demo-1", "writes"]
    assert row.endswith("…")
    assert len(row) <= 80


def test_columns_appear_when_they_have_content() -> None:
    progress = progress_of(2)
    progress.row("task-0").agent = "codex"
    progress.row("task-1").tokens = 12_345
    head, first, second = rendered(list(progress.rows.values()))
    assert head.split() == ["task", "stage", "try", "worker", "agent", "tokens", "doing"]
    assert "codex" in first
    assert "12,345" in second


def test_rows_that_do_not_fit_are_counted() -> None:
    lines = rendered(list(progress_of(ROWS_SHOWN + 7).rows.values()))
    assert len(lines) == ROWS_SHOWN + 2
    assert lines[-1] == "... 7 more"


def test_escape_sequences_in_titles_are_escaped() -> None:
    progress = Progress()
    progress.row("task", "an \x1b[2J escape")
    assert "\\x1b[2J" in rendered(list(progress.rows.values()))[1]


def test_a_waived_check_is_logged_once_and_shown_in_the_summary() -> None:
    progress = Progress()
    progress.accepted("task", "r-1")
    progress.accepted_with("task", {"waivers": [], "last_claim": None})
    waivers = [
        {"check": "scope", "subject": "a.py", "granted_by": "ada"},
        {"check": "scope", "subject": "b.py", "granted_by": "ada"},
        {"check": "criteria", "subject": "*", "granted_by": "bob"},
    ]
    for _ in range(2):
        progress.accepted_with("task", {"waivers": waivers, "last_claim": {"verdict": None}})
    assert list(progress.lines)[1:] == ["task: waived: scope by ada, criteria by bob"]
    summary = [
        str(line) for line in outcome_lines(RunOutcome(done=True, landed=["task"]), progress)
    ]
    assert "landed    task  receipt r-1  waived: scope by ada, criteria by bob" in summary


@pytest.mark.requirement("OWN-13")
def test_what_could_not_be_verified_is_logged_once_and_shown_in_the_summary() -> None:
    progress = Progress()
    progress.accepted("task", "r-1")
    checks = [
        {"check": "commit", "outcome": "passed"},
        {"check": "criterion", "outcome": "unverifiable", "subject": "Tests pass: python3 c.py"},
        {"check": "criterion", "outcome": "passed", "subject": "Tests pass: make t"},
        {"check": "canary", "outcome": "unverifiable", "subject": "Tests pass: make t"},
    ]
    handoff = {"waivers": [], "last_claim": {"verdict": {"checks": checks}}}
    for _ in range(2):
        progress.accepted_with("task", handoff)
    text = "not verified: Tests pass: python3 c.py, canary of Tests pass: make t"
    assert list(progress.lines)[1:] == [f"task: {text}"]
    outcome = RunOutcome(done=True, accepted=["task"])
    assert f"accepted  task  receipt r-1  {text}" in map(str, outcome_lines(outcome, progress))


@pytest.mark.requirement("OWN-13")
def test_of_many_unverified_criteria_some_are_named() -> None:
    checks = [
        {"check": "criterion", "outcome": "unverifiable", "subject": f"it is {word}"}
        for word in ("fast", "small", "nice", "new", "good")
    ]
    assert unverified_text(checks) == "it is fast, it is small, it is nice, and 2 more"
    assert unverified_text([{"check": "commit", "outcome": "unverifiable"}]) == "commit"
    assert unverified_text([]) == ""


@pytest.mark.requirement("OWN-11")
@pytest.mark.parametrize("width", [30, 75])
def test_a_task_has_one_line_on_a_narrow_terminal(width: int) -> None:
    lines = rendered(list(progress_of(ROWS_SHOWN + 3).rows.values()), width)
    assert len(lines) == ROWS_SHOWN + 1
    assert lines[0].startswith("task-0 working writes a")
    assert lines[0].endswith("…")
    assert max(len(line) for line in lines) <= width
    assert lines[-1] == "... 3 more"


@pytest.mark.requirement("OWN-18")
def test_the_summary_shows_the_warnings_of_landed_tasks() -> None:
    outcome = RunOutcome(done=True, landed=["task"], warnings={"task": "its receipt is not noted"})
    assert str(outcome_lines(outcome)[-1]) == "landed    task  its receipt is not noted"


@pytest.mark.requirement("OWN-11")
def test_the_summary_ends_with_the_advice() -> None:
    outcome = RunOutcome(done=False, failed=["task"], stuck={"task": "main has uncommitted files"})
    lines = [str(line) for line in outcome_lines(outcome, advice="when that is fixed: do it")]
    assert lines[-2:] == ["failed    task  main has uncommitted files", "when that is fixed: do it"]
    assert "--retry" not in " ".join(lines)


@pytest.mark.requirement("OWN-11")
def test_a_continued_run_starts_with_what_landed_and_what_it_cost() -> None:
    progress = Progress()
    landed = {"bead_id": "a", "status": "done", "worker": "w", "attempt": 2}
    landed |= {"landed_commit": "c" * 40, "receipt_id": "r-1"}
    progress.continue_task(landed, {"tokens": 1200, "dollars": 0.5})
    for bead_id, status in (("b", "done"), ("c", "open"), ("d", "queued"), ("e", "cancelled")):
        progress.continue_task({"bead_id": bead_id, "status": status, "worker": None}, None)
    stages = [row.stage for row in progress.rows.values()]
    assert stages == ["landed", "accepted", "waiting", "queued", "cancelled"]
    screen = Console(file=io.StringIO(), width=80, color_system=None)
    screen.print(RunView(progress).__rich__())
    assert isinstance(screen.file, io.StringIO)
    shown = screen.file.getvalue()
    assert "1/5 landed" in shown
    assert "1,200 tokens, $0.50" in shown


@pytest.mark.requirement("OWN-12")
def test_the_summary_names_cancelled_tasks_and_what_brings_them_back() -> None:
    back = "cancelled by the operator (bring it back: shiftboss task retry gone --swarm s)"
    outcome = RunOutcome(done=True, cancelled=["gone"], stuck={"gone": back})
    (line,) = [str(line) for line in outcome_lines(outcome) if "gone" in str(line)]
    assert line.startswith("cancelled gone")
    assert back in line


def asked(question_id: int, text: str = "which colour?") -> dict[str, Any]:
    return {"question_id": question_id, "bead_id": f"task-{question_id}", "question": text}


@pytest.mark.requirement("OWN-12")
def test_an_answer_goes_only_to_the_question_that_was_shown_when_it_was_typed() -> None:
    progress = Progress()
    sent: list[tuple[int, str]] = []
    progress.answer = lambda question_id, text: sent.append((question_id, text))
    now = 0.0
    prompt = AnswerPrompt(progress, lambda: now)
    progress.questions = [asked(1), asked(2), asked(3)]
    prompt.type(b"b")
    progress.questions = [asked(2), asked(3)]  # somebody else has answered
    for key in (b"l", b"u", b"e", b"\n"):
        now += 1.5
        prompt.type(key)
    assert sent == []
    prompt.type(b"red\nor ")
    progress.questions = [asked(3)]
    prompt.type(b"green\n")
    assert sent == [(2, "red"), (3, "green")]


@pytest.mark.requirement("OWN-12")
def test_an_answer_stays_with_its_question_when_an_older_one_appears() -> None:
    progress = Progress()
    sent: list[tuple[int, str]] = []
    progress.answer = lambda question_id, text: sent.append((question_id, text))
    prompt = AnswerPrompt(progress)
    prompt.type(b"before any question\n")
    progress.questions = [asked(2)]
    prompt.type(b"bl")
    progress.questions = [asked(1), asked(2)]
    prompt.type(b"ue\n")
    prompt.type(b"red\n")
    assert sent == [(2, "blue"), (1, "red")]


@pytest.mark.requirement("OWN-12")
@pytest.mark.parametrize("width", [40, 80])
@pytest.mark.parametrize("question", ["which colour?", "word " * 900, "line\n" * 90])
def test_the_prompt_fits_a_small_terminal(width: int, question: str) -> None:
    progress = progress_of(ROWS_SHOWN + 3)
    for number in range(20):
        progress.log("", f"line {number}")
    progress.questions = [asked(1, question)]
    screen = Console(file=io.StringIO(), width=width, height=24, color_system=None)
    progress.answer = lambda *_: None
    prompt = AnswerPrompt(progress)
    prompt.type(b"blue " * 40)
    view = RunView(progress)
    view._console = screen
    shown = "\n".join("".join(s.text for s in row) for row in screen.render_lines(view))
    assert len(shown.splitlines()) <= 24
    assert "task-1 asks (question 1):" in shown
    lines = prompt.lines(screen, reads=True)
    assert len(lines) <= 12
    assert str(lines[-1]).endswith("blue _")
    assert len(str(lines[-1])) <= width


def shown_by(progress: Progress, width: int, height: int = 24) -> list[str]:
    view = RunView(progress)
    view._console = Console(file=io.StringIO(), width=width, height=height, color_system=None)
    rows = view._console.render_lines(view)
    return ["".join(segment.text for segment in row).rstrip() for row in rows]


@pytest.mark.requirement("OWN-12")
@pytest.mark.parametrize("width", [40, 60, 100])
def test_what_waits_is_shown_with_its_whole_command_below_the_table(width: int) -> None:
    command = "shiftboss budget set --swarm demo --task rich-1 --tokens 12020"
    progress = progress_of(30)
    progress.stage("task-7", "parked", f"the budget is used up: 6,010 of 5,000 tokens ({command})")
    for number in range(20):
        progress.log("", f"line {number}")
    lines = shown_by(progress, width)
    assert len(lines) <= 24
    assert max(map(len, lines)) <= width
    assert f"tokens ({command})" in " ".join(lines)
    progress.stage("task-7", "working")
    assert command not in " ".join(shown_by(progress, width))


@pytest.mark.requirement("OWN-12")
def test_only_the_reasons_that_fit_are_shown_and_one_reason_of_many_tasks_once() -> None:
    progress = progress_of(30)
    for number in range(4):
        progress.stage(f"task-{number}", "parked", "paused (shiftboss swarm resume s)")
    for number in range(4, 12):
        progress.stage(f"task-{number}", "in review", "word " * 50)
        progress.rows[f"task-{number}"].doing += str(number)
    lines = shown_by(progress, 80)
    assert len(lines) <= 24
    more = [line for line in lines if line.startswith("… and ")]
    assert len(more) == 1
    assert more[0].endswith(" more: shiftboss status")
    progress = progress_of(9)
    for number in range(4):
        progress.stage(f"task-{number}", "parked", "paused (shiftboss swarm resume s)")
    assert "task-0 and 3 more: paused (shiftboss swarm resume s)" in shown_by(progress, 80)


def test_the_first_frame_says_that_the_run_starts() -> None:
    (head, *_) = shown_by(Progress(), 40)
    assert head.startswith("starting")
