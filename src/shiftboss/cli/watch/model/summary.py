"""The header: is everything all right? One line with the finished work, its cost, and the waiting
items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from rich.cells import cell_len
from rich.text import Text

from shiftboss.cli.common.output import printable
from shiftboss.cli.common.times import span
from shiftboss.cli.watch.model.cells import count, fitted, money

BAR_CELLS: Final = 10
_NAME_CELLS_MAX: Final = 24


@dataclass(frozen=True, slots=True)
class Summary:
    """`done` of `total` have `word`: landed where work lands, else done. Times are in ms."""

    swarm_id: str
    status: str
    done: int
    total: int
    word: str
    at_work: int
    dollars: float
    budget_dollars: float | None
    tokens: int
    started_at: int
    ended_at: int | None
    is_paused: bool

    @classmethod
    def of(cls, status: Mapping[str, Any], usage: Mapping[str, Any]) -> Summary:
        bus, budget = status["bus"], usage.get("budget") or {}
        lands = bool(bus["receipts"] or status.get("plan_file"))
        done, total, word = bus["landed"] if lands else bus["done"], _to_do(bus), "done"
        if not total:
            done, total = status["workers_complete"], status["workers_registered"]
        ended = status.get("completed_at")
        return cls(
            swarm_id=str(status["swarm_id"]),
            status=str(status["status"]),
            done=done,
            total=total,
            word="landed" if lands and bus["total"] else word,
            at_work=bus["active"] + status["workers_running"],
            dollars=bus["dollars"],
            budget_dollars=budget.get("dollars"),
            tokens=bus["tokens"],
            started_at=_milliseconds(status["created_at"]),
            ended_at=_milliseconds(ended) if ended else None,
            is_paused=any(
                hold["kind"] == "pause" and not hold.get("bead_id")
                for hold in status.get("holds", ())
            ),
        )


def _to_do(bus: Mapping[str, Any]) -> int:
    """As on the page: cancelled tasks are not counted as open."""
    return int(bus["total"] - bus["cancelled"])


def _milliseconds(wire_time: str) -> int:
    return int(datetime.fromisoformat(wire_time).timestamp() * 1000)


def header_line(summary: Summary, needs_you: int, now_ms: int, width: int) -> Text:
    """If there is too little room, the least important parts are left out first."""
    name = printable(summary.swarm_id)
    parts = [Text().append(fitted(name, min(cell_len(name), _NAME_CELLS_MAX)), "bold")]
    parts.append(_progress(summary))
    waits = Text(f"! {needs_you} need you" if needs_you != 1 else "! 1 needs you", "bold red")
    parts.append(waits if needs_you else Text("nothing needs you", "green"))
    agents = "agent" if summary.at_work == 1 else "agents"
    parts.append(Text(f"{summary.at_work} {agents} at work"))
    if summary.is_paused:
        parts.append(Text("paused", "bold yellow"))
    cost = _cost(summary)
    if cost:
        parts.append(Text(cost))
    parts.append(Text(span(((summary.ended_at or now_ms) - summary.started_at) / 1000)))
    while len(parts) > 3 and sum(part.cell_len + 3 for part in parts) - 3 > width:
        parts.pop()
    line = parts[0]
    for part in parts[1:]:
        line.append(" · ", "dim").append(part)
    return line


def _progress(summary: Summary) -> Text:
    text = Text()
    if summary.total:
        full = round(BAR_CELLS * summary.done / summary.total)
        text.append("█" * full, "green").append("░" * (BAR_CELLS - full), "dim").append(" ")
    return text.append(f"{summary.done}/{summary.total} {summary.word}")


def _cost(summary: Summary) -> str:
    if summary.dollars or summary.budget_dollars:
        limit = f" of {money(summary.budget_dollars)}" if summary.budget_dollars else ""
        return (money(summary.dollars) or "$0") + limit
    return f"{count(summary.tokens)} tokens" if summary.tokens else ""
