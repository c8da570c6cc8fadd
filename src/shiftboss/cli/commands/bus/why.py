"""shiftboss why: why a task is where it is, and the command that helps."""

from __future__ import annotations

from typing import Any

from shiftboss.cli.common.client import parse_answer
from shiftboss.cli.common.command import Output, ServerSession, server_command
from shiftboss.cli.common.options import TaskId, TaskSwarm
from shiftboss.cli.common.output import print_line, show


@server_command()
def why(session: ServerSession, task_id: TaskId, swarm: TaskSwarm = None) -> Output:
    """Tell why a task is where it is, with the command that helps.

    \b
    Example:
      shiftboss why bd-1
    """
    answer = session.call("why_task", session.swarm_of(task_id, swarm), bead_id=task_id)
    return Output(answer, lambda: _show(parse_answer(answer, "reasons")))


def _show(answer: dict[str, Any]) -> None:
    from shiftboss.cli.views.overview import reason_lines

    print_line(f"{answer['bead_id']} of the swarm {answer['swarm_id']} is {answer['status']}:")
    show(*reason_lines(answer["reasons"], with_task=False))
