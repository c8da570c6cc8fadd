"""The running and waiting work of a swarm: counts, cost, and the command that helps."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from rich.text import Text

from shiftboss.cli.common.discovery import here_command
from shiftboss.cli.common.output import console, printable
from shiftboss.cli.common.tables import Members
from shiftboss.cli.common.times import ago

STATUS_STYLES: Final = {
    "running": "cyan",
    "waiting": "yellow",
    "complete": "green",
    "failed": "bold red",
}
_STATUSES: Final = ("active", "queued", "open", "landed", "done", "failed", "cancelled")


def work_text(bus: Members) -> str:
    """`2 active, 1 open, 2 landed, 1 done`: only what is not zero, and each task once."""
    counts = bus | {"done": max(bus["done"] - bus["landed"], 0)}
    parts = [f"{counts[status]} {status}" for status in _STATUSES if counts[status]]
    return ", ".join(parts) or "no tasks"


def cost_text(bus: Members) -> str:
    """Nothing if nothing was used."""
    if not bus["tokens"]:
        return ""
    unpriced = bus["unpriced_tokens"]
    dollars = f", ${bus['dollars']:,.2f}" if bus["dollars"] or not unpriced else ""
    return f"{bus['tokens']:,} tokens{dollars}"


def show_lines(lines: list[Text]) -> None:
    """On a terminal, sentences are wrapped and head lines cut. A command is left to the terminal to
    break, so that it can be copied. A file or a pipe gets every line as it is."""
    screen = console()
    for line in lines:
        if line.overflow == "ellipsis" and screen.is_terminal:
            screen.print(line, no_wrap=True, overflow="ellipsis")
        else:
            screen.print(line, soft_wrap=bool(line.no_wrap) or not screen.is_terminal)


def reason_lines(reasons: list[Members], *, with_task: bool = True, indent: str = "") -> list[Text]:
    """The sentence, and each command on a line of its own."""
    lines = []
    for reason in reasons:
        task = f"{reason['bead_id']}: " if with_task and reason["bead_id"] else ""
        lines.append(Text(f"{indent}{printable(task + reason['text'])}"))
        commands = [reason["command"], *reason.get("also", ())] if reason["command"] else []
        lines += [
            Text(f"{indent}  {printable(here_command(command))}", style="cyan", no_wrap=True)
            for command in commands
        ]
    return lines


def swarm_lines(swarm: Members, at: datetime) -> list[Text]:
    """A head line, the counts and cost, and what waits."""
    head = Text(printable(swarm["swarm_id"]), style="bold")
    head.append(f"  {swarm['status']}", STATUS_STYLES.get(swarm["status"], ""))
    head.append(f"  {ago(swarm['last_update'], at)}", "dim")
    if swarm["feature"]:
        head.append(f"  {printable(swarm['feature'])}")
    head.overflow = "ellipsis"
    return [
        head,
        *(Text(f"  {text}") for text in _counts(swarm)),
        *reason_lines(swarm["waiting"], indent="  "),
    ]


def _counts(swarm: Members) -> list[str]:
    bus, texts = swarm["bus"], []
    if bus["total"]:
        workers = f"{bus['workers']} worker" + ("" if bus["workers"] == 1 else "s")
        cost = cost_text(bus)
        texts.append(work_text(bus))
        texts.append(f"{workers}, {cost}" if cost else workers)
    if swarm["workers_registered"]:
        done, total = swarm["workers_complete"], swarm["workers_registered"]
        failed = f", {swarm['workers_failed']} failed" if swarm["workers_failed"] else ""
        texts.append(f"{done} of {total} packets complete{failed}")
    return texts
