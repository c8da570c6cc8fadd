"""Running the demo from its first process to its last."""

from __future__ import annotations

import shlex
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from shiftboss.cli.options import DEFAULT_SERVER
from shiftboss.cli.output import console
from shiftboss.demo.checks import Fact, facts
from shiftboss.demo.crew import Crew
from shiftboss.demo.record import DemoFailed, Record
from shiftboss.demo.story import run_story
from shiftboss.demo.view import View


def run_demo(*, keep: bool) -> int:
    """The exit code: 0 when all that should hold does."""
    folder = Path(tempfile.mkdtemp(prefix="shiftboss-demo-"))
    screen, record = console(), Record()
    with _ended_by_signal(), Crew(folder, record) as crew:
        try:
            with View(screen) as view:
                outcome = run_story(crew, record, view)
        except DemoFailed as failure:
            failure.hint = f"the logs are in {folder}"
            raise
        found = facts(crew, record, outcome)
        _print_summary(screen, found)
        _print_places(screen, crew, outcome.swarm_id)
        if keep:
            _keep(screen, crew, outcome.swarm_id)
    return 0 if all(fact.holds for fact in found) else 1


def _print_summary(screen: Console, found: list[Fact]) -> None:
    screen.print()
    if screen.is_terminal:
        screen.print(_facts_table(found))
        return
    for fact in found:
        screen.print(f"{_mark(fact)}  {fact.text}", soft_wrap=True)


def _facts_table(found: list[Fact]) -> Table:
    lines = Table.grid(padding=(0, 2, 0, 0))
    for fact in found:
        lines.add_row(Text(_mark(fact), "green" if fact.holds else "bold red"), Text(fact.text))
    return lines


def _mark(fact: Fact) -> str:
    return "ok" if fact.holds else "FAILED"


def _print_places(screen: Console, crew: Crew, swarm_id: str) -> None:
    again = shlex.join(["shiftboss", "serve", "--db", str(crew.database)])
    for line in (
        "",
        f"database   {crew.database}",
        f"repos      {crew.folder / 'repos'}",
        f"look again {again}",
        f"           then: shiftboss swarm show {swarm_id}",
        f"           or:   {DEFAULT_SERVER}/swarm/{swarm_id}/status",
    ):
        # Paths and commands are there to be copied: no line breaks in them.
        screen.print(line, soft_wrap=True)


def _keep(screen: Console, crew: Crew, swarm_id: str) -> None:
    address = f"{crew.address}/swarm/{swarm_id}/status"
    screen.print(f"\nthe server is at {address}; Ctrl-C stops it", soft_wrap=True)
    try:
        crew.wait_for_server()
    except KeyboardInterrupt:
        screen.print()


@contextmanager
def _ended_by_signal() -> Iterator[None]:
    """SIGTERM unwinds as Ctrl-C does, so that nothing is left running."""

    def leave(number: int, _frame: object) -> None:
        sys.exit(128 + number)

    former = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)
