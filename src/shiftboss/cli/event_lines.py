"""An event as a line for people. Imported late: it needs rich."""

from __future__ import annotations

from typing import Final

from rich.console import RenderableType
from rich.table import Column, Table
from rich.text import Text

from shiftboss.cli.event_stream import StreamEvent
from shiftboss.cli.output import plain
from shiftboss.cli.sentences import sentence

ID_CELLS: Final = 5
KIND_CELLS: Final = 18

_STYLES: Final = {
    "worker_error": "red",
    "retry_due": "yellow",
    "worker_complete": "green",
    "swarm_complete": "bold green",
    "claim_accepted": "green",
    "claim_refused": "red",
    "waiver_granted": "yellow",
    "ci_passed": "green",
    "ci_failed": "red",
    "work_paused": "yellow",
    "chain_halted": "bold red",
    "budget_exceeded": "bold red",
    "dispatch_paused": "yellow",
    "task_landed": "bold green",
}


def event_line(event: StreamEvent, *, wide: bool) -> RenderableType:
    """One line; on a terminal a long sentence goes on under itself."""
    style = _STYLES.get(event.event, "")
    kind, words = plain(event.event), sentence(event)
    if wide:
        return Text(f"{event.id:>{ID_CELLS}}  {kind:<{KIND_CELLS}}  {words}")
    line = Table.grid(
        Column(width=ID_CELLS, justify="right", no_wrap=True),
        Column(width=KIND_CELLS, no_wrap=True),
        Column(overflow="fold"),
        padding=(0, 2, 0, 0),
    )
    line.add_row(Text(str(event.id)), Text(kind, style=style), Text(words))
    return line
