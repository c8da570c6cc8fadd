"""Following the swarm's events, over the death of the server."""

from __future__ import annotations

import threading
from typing import Any

from shiftboss.cli.client import Client, NoServer, parsed, swarm_path
from shiftboss.cli.event_stream import followed_events
from shiftboss.demo.record import Record
from shiftboss.demo.view import View
from shiftboss.errors import ShiftbossError


def start_watching(client: Client, swarm_id: str, record: Record, view: View) -> None:
    """From a thread, until the swarm is complete."""
    threading.Thread(target=_watch, args=(client, swarm_id, record, view), daemon=True).start()


def _watch(client: Client, swarm_id: str, record: Record, view: View) -> None:
    def lost() -> None:
        view.say("the event stream is cut; connecting again from the last event")

    try:
        for event in followed_events(client, swarm_id, 0, lost):
            view.hear(event, _status(client, swarm_id))
            record.add_event(event)
            if event.event == "swarm_complete":
                return
    except ShiftbossError as error:
        record.fail(f"the event stream ended: {error.detail}")


def _status(client: Client, swarm_id: str) -> dict[str, Any] | None:
    try:
        return parsed(client.get(swarm_path(swarm_id, "status")), "workers")
    except NoServer:
        return None
