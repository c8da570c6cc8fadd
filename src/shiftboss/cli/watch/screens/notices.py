"""The notice at the top about a problem, and the text of an empty view."""

from __future__ import annotations

import time

from rich.text import Text

from shiftboss.cli.common.discovery import serve_command
from shiftboss.cli.common.output import printable
from shiftboss.cli.common.times import span
from shiftboss.cli.watch.model.state import Model
from shiftboss.errors import ShiftbossError


def notice_text(model: Model) -> Text:
    """Empty if all is well."""
    if model.lost is not None:
        since = span(time.monotonic() - model.lost_at)
        text, style = (
            f"no connection for {since}: {error_text(model.lost)}; trying again",
            "bold red",
        )
    elif model.refused is not None:
        text, style = f"the server refused: {error_text(model.refused)}", "bold red"
    elif model.is_offline:
        text = "no server is running: this is the state in the database; start one: "
        text, style = text + serve_command(), "yellow"
    else:
        return Text()
    return Text(printable(text), style)


def error_text(error: ShiftbossError) -> str:
    return f"{error.detail}; {error.hint}" if error.hint else str(error.detail)


def empty_text(model: Model, view: str) -> str:
    """The text of a view that has nothing to show; "" if it has something."""
    if not model.is_loaded:
        return "" if model.lost or model.refused else "loading"
    if view == "inbox":
        return "" if len(model.inbox) else "Nothing waits for you."
    if view == "workers":
        return (
            ""
            if len(model.workers)
            else "No workers. A run starts its own: shiftboss run plan.yaml"
        )
    return _empty_board(model)


def _empty_board(model: Model) -> str:
    if len(model.board):
        return ""
    if model.board.total:
        return "No task matches the filter. esc ends it."
    if model.swarm_id is None:
        return "There is no swarm yet. Run a plan: shiftboss run plan.yaml"
    return f"{model.swarm_id} has no tasks yet. w chooses another swarm."
