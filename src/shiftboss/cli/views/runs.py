"""A run: a live table on a terminal, plain lines elsewhere, a summary at the end; and usage."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Column, Table
from rich.text import Text

from shiftboss.cli.common.line_input import KeyInput, can_read_lines
from shiftboss.cli.common.output import console, printable
from shiftboss.cli.common.tables import Members, cell, plain_table
from shiftboss.cli.views.answer_prompt import AnswerPrompt
from shiftboss.orchestrator.run.progress import Progress, TaskProgress

if TYPE_CHECKING:
    from shiftboss.orchestrator.run.plan_run import RunOutcome
from collections.abc import Collection, Iterable

from rich.console import Console

LINES_SHOWN: Final = 6
ROWS_SHOWN: Final = 20
# The head, the names of the columns, and the row that counts the tasks that are not shown.
FIXED_ROWS: Final = 3
# Below this, the columns of the table would leave no room for what an agent does.
NARROW_COLUMNS: Final = 76
_STYLES: Final = {
    "landed": "green",
    "accepted": "cyan",
    "working": "yellow",
    "verifying": "magenta",
    "failed": "bold red",
    "parked": "blue",
    "blocked": "bold yellow",
    "in review": "bold yellow",
    "cancelled": "yellow",
    "waiting": "dim",
    "queued": "dim",
}
# The most important first.
_ORDER: Final = (
    *("blocked", "in review", "failed", "working", "verifying", "landing", "preparing", "parked"),
    *("accepted", "queued", "waiting", "landed", "cancelled"),
)


class RunView:
    """Shows the progress of a run while it lasts; nothing if `quiet`. `elapsed` is how many seconds
    ago the run was started. Answers to questions are read only in the process of the run."""

    def __init__(
        self,
        progress: Progress,
        *,
        quiet: bool = False,
        elapsed: float = 0.0,
        reads_answers: bool = True,
    ) -> None:
        self._progress = progress
        self._console = console()
        self._quiet = quiet
        self._reads_answers = reads_answers
        self._started_at = time.monotonic() - elapsed
        self._live: Live | None = None
        self._lock = threading.Lock()
        self._prompt = AnswerPrompt(progress)
        self._input: KeyInput | None = None

    def __enter__(self) -> Self:
        if self._quiet:
            return self
        if self._console.is_terminal:
            self._live = Live(
                get_renderable=self.__rich__, console=self._console, refresh_per_second=4
            )
            self._live.start()
            self._progress.on_login_link = self._show_link
            if self._reads_answers and can_read_lines():
                self._input = KeyInput(self._prompt.type)
                self._input.start()
        else:
            self._progress.listeners.append(self._print)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._input is not None:
            self._input.stop()
        if self._live is not None:
            self._live.stop()

    def _show_link(self, url: str) -> None:
        self._console.print(f"Page: {printable(url)}", soft_wrap=True, highlight=False)

    def _print(self, bead_id: str, text: str) -> None:
        seconds = time.monotonic() - self._started_at
        line = f"{bead_id}: {text}" if bead_id else text
        with self._lock:
            self._console.print(f"{seconds:6.1f} s  {printable(line)}", soft_wrap=True)

    def __rich__(self) -> RenderableType:
        rows = sorted(self._progress.rows.values(), key=lambda row: _ORDER.index(row.stage))
        is_narrow = self._console.width < NARROW_COLUMNS
        landed = sum(row.stage == "landed" for row in rows)
        bar = ProgressBar(total=max(len(rows), 1), completed=landed, width=30)
        head = Table.grid(padding=(0, 1))
        head.add_row(
            f"{landed}/{len(rows)} landed" if rows else "starting",
            *([] if is_narrow else [bar]),
            f"{time.monotonic() - self._started_at:.0f} s, {_spent(list(rows))}",
        )
        prompt = self._prompt.lines(self._console, reads=self._input is not None)
        waiting = waiting_lines(
            rows,
            {question["bead_id"] for question in self._progress.questions} if prompt else (),
            self._console,
            rows_max=(self._console.height - len(prompt) - FIXED_ROWS) * 2 // 3,
        )
        rows_max, lines_max = room_for(self._console.height, len(waiting) + len(prompt))
        last_lines = list(self._progress.lines)[-lines_max:]
        lines = [_one_line(Text(printable(line), style="dim")) for line in last_lines]
        tasks = narrow_lines(rows, rows_max) if is_narrow else [run_table(rows, rows_max)]
        return Group(head, *tasks, *lines, *waiting, *prompt)

    def show_outcome(self, outcome: RunOutcome, advice: str | None = None) -> None:
        for line in outcome_lines(outcome, self._progress, advice):
            self._console.print(line, soft_wrap=True)


def room_for(height: int, prompt_rows: int) -> tuple[int, int]:
    """How many tasks and last lines fit a terminal of this height above the prompt and what waits,
    which must not be cut off."""
    room = height - FIXED_ROWS - prompt_rows
    lines = min(LINES_SHOWN, max(room // 3, 1))
    return min(ROWS_SHOWN, max(room - lines, 1)), lines


def outcome_lines(
    outcome: RunOutcome,
    progress: Progress | None = None,
    advice: str | None = None,
    *,
    with_usage: bool = True,
) -> list[RenderableType]:
    """The summary: landed tasks with their receipts, and the others with the reason. It ends with
    the advice, which names the command that helps."""
    rows = progress.rows if progress is not None else {}
    lines: list[RenderableType] = [Text("")]
    for title, style, ids in (
        ("landed", "green", outcome.landed),
        ("accepted", "cyan", outcome.accepted),
        ("waiting", "dim", outcome.waiting),
        ("cancelled", "yellow", outcome.cancelled),
        ("failed", "bold red", outcome.failed),
    ):
        for bead_id in ids:
            row = rows.get(bead_id)
            lines.append(
                Text(f"{title:9} {printable(_task_outcome(bead_id, row, outcome))}", style)
            )
    if progress is not None and with_usage:
        lines.append(Text(_spent(list(progress.rows.values()))))
    lines += [Text(printable(advice))] if advice else []
    return lines


def _task_outcome(bead_id: str, row: TaskProgress | None, outcome: RunOutcome) -> str:
    parts = [bead_id]
    if row is not None:
        parts += [row.landed[:12]] if row.landed else []
        parts += [f"receipt {row.receipt_id}"] if row.receipt_id else []
        parts += [f"waived: {row.waived}"] if row.waived else []
        parts += [f"not verified: {row.unverified}"] if row.unverified else []
        parts += [row.error] if row.error and bead_id in outcome.failed else []
    parts += [outcome.stuck[bead_id]] if bead_id in outcome.stuck else []
    parts += [outcome.warnings[bead_id]] if bead_id in outcome.warnings else []
    return "  ".join(parts)


def run_table(rows: list[TaskProgress], rows_max: int = ROWS_SHOWN) -> Table:
    """Columns that would be empty or the same in every row are left out, to fit 80 columns."""
    columns: list[tuple[str, Callable[[TaskProgress], str | Text]]] = [
        ("task", lambda row: printable(row.bead_id)),
        ("stage", lambda row: Text(row.stage, _STYLES.get(row.stage, ""))),
        ("try", lambda row: str(row.attempt or "")),
        ("worker", lambda row: printable(row.worker or "")),
    ]
    if len({row.agent for row in rows if row.agent}) > 1:
        columns.append(("agent", lambda row: row.agent or ""))
    if any(row.tokens for row in rows):
        columns.append(("tokens", lambda row: f"{row.tokens:,}" if row.tokens else ""))
    table = Table(box=None, padding=(0, 2, 0, 0), expand=True)
    for name, _ in columns:
        table.add_column(name, no_wrap=True)
    table.add_column("doing", no_wrap=True, overflow="ellipsis", ratio=1)
    for row in rows[:rows_max]:
        cells = (cell(row) for _, cell in columns)
        table.add_row(*cells, printable(row.doing or row.title))
    if len(rows) > rows_max:
        table.add_row(f"... {len(rows) - rows_max} more")
    return table


def narrow_lines(rows: list[TaskProgress], rows_max: int = ROWS_SHOWN) -> list[Text]:
    """One line per task, without columns."""
    lines = [_narrow_line(row) for row in rows[:rows_max]]
    if len(rows) > rows_max:
        lines.append(Text(f"... {len(rows) - rows_max} more"))
    return lines


def _narrow_line(row: TaskProgress) -> Text:
    stage = Text(row.stage, _STYLES.get(row.stage, ""))
    return _one_line(
        Text.assemble(printable(row.bead_id), " ", stage, " ", printable(row.doing or row.title))
    )


def _one_line(text: Text) -> Text:
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _spent(rows: list[TaskProgress]) -> str:
    tokens, dollars = sum(row.tokens for row in rows), sum(row.dollars for row in rows)
    return f"{tokens:,} tokens" + (f", ${dollars:.2f}" if dollars else "")


def usage_table(listing: Members) -> Table:
    """A row per task, and one for the whole swarm."""
    table = plain_table(
        Column("TASK", no_wrap=True),
        *(
            Column(name, no_wrap=True, justify="right")
            for name in ("INPUT", "OUTPUT", "CACHED", "DOLLARS", "BUDGET")
        ),
        "",
    )
    for task in listing["tasks"]:
        _add_usage(table, task["bead_id"], task["used"], task)
    _add_usage(table, "all", listing["swarm"], listing, style="bold")
    return table


def _add_usage(table: Table, name: str, used: Members, limits: Members, style: str = "") -> None:
    table.add_row(
        cell(name, style),
        *(cell(f"{used[count]:,}") for count in ("input_tokens", "output_tokens", "cached_tokens")),
        cell(_dollars(used)),
        cell(_budget(limits["budget"])),
        cell("used up" if limits["over"] else "", "bold red"),
    )


def _dollars(used: Members) -> str:
    """The price of some tokens may be unknown."""
    dollars, unpriced = f"${used['dollars']:,.2f}", used["unpriced_tokens"]
    return f"{dollars} + {unpriced:,} unpriced" if unpriced else dollars


def _budget(budget: Members | None) -> str:
    if budget is None:
        return ""
    tokens, dollars = budget["tokens"], budget["dollars"]
    parts = [f"{tokens:,}"] if tokens is not None else []
    parts += [f"${dollars:,.2f}"] if dollars is not None else []
    return ", ".join(parts)


REASONS_SHOWN: Final = 4
_WAITING: Final = ("blocked", "in review", "parked")


def waiting_lines(
    rows: Iterable[TaskProgress], prompted: Collection[str], console: Console, rows_max: int
) -> list[Text]:
    """Rows of the terminal: the reasons that fit, wrapped and never cut, and how many do not.
    `prompted` are the tasks that the prompt asks about already."""
    reasons = _tasks_by_reason(rows, prompted)
    lines: list[Text] = []
    shown = 0
    for reason, tasks in list(reasons.items())[:REASONS_SHOWN]:
        wrapped = _wrapped(f"{_names(tasks)}: {reason}", console)
        # The last row is for the number of lines that do not fit.
        if len(lines) + len(wrapped) + (shown + 1 < len(reasons)) > rows_max:
            break
        lines += wrapped
        shown += 1
    if shown < len(reasons):
        lines += _wrapped(f"… and {len(reasons) - shown} more: shiftboss status", console)
    return lines


def _tasks_by_reason(
    rows: Iterable[TaskProgress], prompted: Collection[str]
) -> dict[str, list[str]]:
    """A pause of the whole swarm is the reason of many tasks."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.stage in _WAITING and row.doing and row.bead_id not in prompted:
            reasons.setdefault(row.doing, []).append(row.bead_id)
    return reasons


def _names(tasks: list[str]) -> str:
    return tasks[0] + (f" and {len(tasks) - 1} more" if len(tasks) > 1 else "")


def _wrapped(text: str, console: Console) -> list[Text]:
    return list(Text(printable(text), "yellow").wrap(console, console.width, overflow="fold"))
