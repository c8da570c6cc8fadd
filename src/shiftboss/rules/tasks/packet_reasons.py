"""Why a packet is where it is: one sentence for each reason, with the command that helps."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from shiftboss.rules.tasks.lifecycle import packet_status
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.waiting import Reason, short_text, time_text


def packet_reasons(packet: Assignment) -> Iterator[Reason]:
    """There is always at least one."""
    swarm = shlex.quote(packet.swarm_id)
    error = f": {short_text(packet.last_error)}" if packet.last_error else ""
    status = packet_status(packet.state)
    if status == "complete":
        commit = f" at commit {packet.final_commit[:12]}" if packet.final_commit else ""
        yield Reason("done", packet.task_id, f"{packet.worker} has completed it{commit}")
        return
    if status == "failed":
        text = f"{packet.worker} has failed{error}"
        yield Reason("failed", packet.task_id, text, f"shiftboss events {swarm}")
        return
    if packet.retries_open:
        steps = "1 task waits" if packet.retries_open == 1 else f"{packet.retries_open} tasks wait"
        text = f"{steps} for another attempt{error}"
        yield Reason("retry", packet.task_id, text, f"shiftboss events {swarm}")
    yield Reason(
        "at_work",
        packet.task_id,
        f"{packet.worker} has completed {packet.steps_completed} of {packet.steps_total} tasks; "
        f"its last report came at {time_text(packet.updated_at_ms)}",
        f"shiftboss swarm show {swarm}",
    )
