"""Logs the outcomes that an operator may have to act on."""

from __future__ import annotations

import logging
from typing import Final

from pydantic_core import from_json

from shiftboss.coordinator.after_commit.runner import Effect
from shiftboss.protocol.events import Event, EventKind
from shiftboss.system.log_subject import subject

log = logging.getLogger(__name__)


async def log_outcome(event: Event) -> None:
    data = from_json(event.data)
    task_id = data.get("bead_id")
    about = f"task {task_id} of swarm {event.swarm_id}" if task_id else f"swarm {event.swarm_id}"
    facts = subject(
        event.swarm_id,
        task_id,
        epoch=data.get("epoch"),
        worker=data.get("worker"),
        claim=data.get("claim_id"),
    )
    log.info("%s: %s (event %d)", event.kind, about, event.event_id, extra={"facts": facts})


# Without catch_up: the events keep what a crash leaves out of the log.
OUTCOME_LOG: Final = Effect(
    "log_outcome",
    frozenset(
        {
            EventKind.CLAIM_ACCEPTED,
            EventKind.CLAIM_REFUSED,
            EventKind.CHAIN_HALTED,
            EventKind.BUDGET_EXCEEDED,
            EventKind.TIMEOUT_ESCALATED,
            EventKind.SWARM_COMPLETE,
        }
    ),
    log_outcome,
)
