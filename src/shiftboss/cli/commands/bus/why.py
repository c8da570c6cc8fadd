"""shiftboss why: why a task is where it is, and the command that helps."""

from __future__ import annotations

import re
from typing import Any, Final

from shiftboss.cli.common.client import parse_answer
from shiftboss.cli.common.command import Output, ServerSession, server_command
from shiftboss.cli.common.open_items import swarm_of_packet
from shiftboss.cli.common.options import TaskId, TaskSwarm
from shiftboss.cli.common.output import print_line

_PACKET: Final = re.compile("packet-([0-9]+)")


@server_command()
def why(session: ServerSession, task_id: TaskId, swarm: TaskSwarm = None) -> Output:
    """Tell why a task or a packet is where it is, with the command that helps.

    \b
    Example:
      shiftboss why bd-1
    """
    if packet := _PACKET.fullmatch(task_id):
        swarm_id = swarm_of_packet(session, int(packet[1]), swarm)
    else:
        swarm_id = session.swarm_of(task_id, swarm)
    answer = session.call("why_task", swarm_id, bead_id=task_id)
    task = None if packet else session.call("show_task", swarm_id, bead_id=task_id)
    return Output(answer, lambda: _show(parse_answer(answer, "reasons"), task))


def _show(answer: dict[str, Any], task: bytes | None) -> None:
    from shiftboss.cli.views.bus import effective_status
    from shiftboss.cli.views.overview import reason_lines, show_lines

    # The same word as in `task list`.
    status = answer["status"] if task is None else effective_status(parse_answer(task, "status"))
    print_line(f"{answer['bead_id']} of the swarm {answer['swarm_id']} is {status}:")
    show_lines(reason_lines(answer["reasons"], with_task=False))
