"""shiftboss replay: a swarm as it was at any of its events."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from shiftboss.cli.common.client import parse_answer
from shiftboss.cli.common.command import Output, ServerSession, server_command
from shiftboss.cli.common.event_stream import StreamEvent, stored_events
from shiftboss.cli.common.open_items import only_swarm
from shiftboss.cli.common.options import OnlySwarmId
from shiftboss.cli.common.output import print_line, show


@server_command(json_help="Print the state after the event, by default the last, as JSON.")
def replay(
    session: ServerSession,
    swarm_id: OnlySwarmId = None,
    at: Annotated[
        int | None,
        typer.Option("--at", metavar="EVENT", min=0, help="Show the board after this event."),
    ] = None,
) -> Output:
    """Show the board of a swarm as it was after an event.

    Without --at, it tells the whole run: a line for every event that moved a task to another
    column, and the board at the end. Everything is computed from the stored events, with or
    without a running server. The server deletes old events after its retention time; then the
    earlier states of a swarm can no longer be shown, and this says so.

    \b
    Examples:
      shiftboss replay login
      shiftboss replay login --at 120
    """
    swarm = only_swarm(session, swarm_id)
    state = _whole_state(session, swarm, at)

    def view() -> None:
        from shiftboss.cli.views.replay import board_table, move_line, state_line

        if at is None:
            for move in _moves(session, swarm, lands=state["lands"]):
                print_line(move_line(*move))
        print_line(state_line(swarm, state))
        if state["tasks"]:
            show(board_table(state["tasks"]))

    return Output(json.dumps(state).encode(), view)


def _whole_state(session: ServerSession, swarm: str, at: int | None) -> dict[str, Any]:
    """All pages as one. Later pages are about the event of the first."""
    state = parse_answer(session.call("replay_swarm", swarm, at=at), "tasks")
    after = state.pop("next_after", None)
    while after is not None:
        more = session.call("replay_swarm", swarm, at=state["at"], after=after)
        page = parse_answer(more, "tasks")
        state["tasks"] += page["tasks"]
        after = page.get("next_after")
    return state


def _moves(
    session: ServerSession, swarm: str, *, lands: bool
) -> Iterator[tuple[StreamEvent, str, str | None, str, Counter[str]]]:
    """Every event that moved its task: from which column to which, and how many are where then."""
    from shiftboss.rules.tasks.board_fold import FoldedBoard
    from shiftboss.rules.tasks.event_fold import task_of_event
    from shiftboss.rules.tasks.folded_columns import column_of

    board, columns, counts = FoldedBoard(), dict[str, str](), Counter[str]()
    for event in stored_events(session.client, swarm, 0):
        board.apply_data(event.id, event.event, event.data)
        task_id = task_of_event(event.data)
        if task_id is None or not board.has(task_id):
            continue
        before, after = columns.get(task_id), column_of(board, task_id, lands=lands)
        if before != after:
            columns[task_id] = after
            counts[after] += 1
            counts[before or ""] -= 1
            yield event, task_id, before, after, counts
