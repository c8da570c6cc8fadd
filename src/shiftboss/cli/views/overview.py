"""What goes on in a swarm: counts, cost, and what waits with the command that helps."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from rich.text import Text

from shiftboss.cli.common.output import printable
from shiftboss.cli.views.tables import Members
from shiftboss.cli.views.times import ago

STATUS_STYLES: Final = {
    "running": "cyan",
    "waiting": "yellow",
    "complete": "green",
    "failed": "bold red",
}
_STATUSES: Final = ("active", "queued", "open", "done", "failed", "cancelled")


def work_text(bus: Members) -> str:
    """`2 active, 1 open, 3 done (2 landed)`: only what is not zero."""
    parts = [f"{bus[status]} {status}" for status in _STATUSES if bus[status]]
    if bus["landed"]:
        parts.append(f"{bus['landed']} landed")
    return ", ".join(parts) or "no tasks"


def cost_text(bus: Members) -> str:
    """Nothing if nothing was used."""
    if not bus["tokens"]:
        return ""
    unpriced = bus["unpriced_tokens"]
    dollars = f", ${bus['dollars']:,.2f}" if bus["dollars"] or not unpriced else ""
    return f"{bus['tokens']:,} tokens{dollars}"


def reason_lines(reasons: list[Members], *, with_task: bool = True) -> list[Text]:
    """Two lines for each: the sentence, and the command on a line of its own, to be copied."""
    lines = []
    for reason in reasons:
        task = f"{reason['bead_id']}: " if with_task and reason["bead_id"] else ""
        lines.append(Text(printable(f"{task}{reason['text']}")))
        if reason["command"]:
            command = Text(f"  {printable(reason['command'])}", style="cyan")
            command.no_wrap, command.overflow = True, "ignore"
            lines.append(command)
    return lines


def swarm_lines(swarm: Members, at: datetime) -> list[Text]:
    """A head line, the counts and cost, and what waits."""
    head = Text(printable(swarm["swarm_id"]), style="bold")
    head.append(f"  {swarm['status']}", STATUS_STYLES.get(swarm["status"], ""))
    head.append(f"  {ago(swarm['last_update'], at)}", "dim")
    if swarm["feature"]:
        head.append(f"  {printable(swarm['feature'])}")
    head.no_wrap, head.overflow = True, "ellipsis"
    return [
        head,
        *(Text(f"  {text}") for text in _counts(swarm)),
        *(_indented(line) for line in reason_lines(swarm["waiting"])),
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


def _indented(line: Text) -> Text:
    indented = Text("  ") + line
    indented.no_wrap, indented.overflow = line.no_wrap, line.overflow
    return indented
