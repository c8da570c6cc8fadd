"""Use case of the list of events: one page, forwards or backwards, of a task or of some kinds."""

from __future__ import annotations

import json
from typing import Any, Final

from shiftboss.coordinator.swarms.swarms import check_exists
from shiftboss.errors import InvalidRequest
from shiftboss.protocol.events import Event
from shiftboss.protocol.history import EventList, EventView, ListEventsRequest
from shiftboss.rules.tasks.event_fold import task_of_event
from shiftboss.store.port import EventFilter, Transaction

# One request looks at no more events, however few fit its filter.
EVENTS_SEARCHED_MAX: Final = 10_000
# Events are small, but a question may have thousands of characters.
PAGE_CHARACTERS_MAX: Final = 1_000_000


def listing(tx: Transaction, request: ListEventsRequest) -> EventList:
    if request.before is not None and request.after is not None:
        raise InvalidRequest("after: give either before or after", field="after")
    check_exists(tx, request.swarm_id)
    first, last = tx.event_bounds(request.swarm_id)
    newest_first = request.after is None
    wanted = _range(request, first, last)
    stored = tx.events_between(wanted, request.limit, newest_first=newest_first)
    events = _within_size(stored)
    is_cut = len(stored) == request.limit or len(events) < len(stored)
    if newest_first:
        reached = events[-1].event_id if is_cut else wanted.after + 1
        next_before, next_after = (reached if reached > max(first, 1) else None), None
    else:
        reached = events[-1].event_id if is_cut else wanted.before - 1
        next_before, next_after = None, (reached if reached < last else None)
    return EventList(
        events=[view(event) for event in events],
        next_before=next_before,
        next_after=next_after,
        first_event_id=first,
        last_event_id=last,
    )


def _range(request: ListEventsRequest, first: int, last: int) -> EventFilter:
    if request.after is None:
        before = last + 1 if request.before is None else min(request.before, last + 1)
        after = max(before - 1 - EVENTS_SEARCHED_MAX, first - 1, 0)
    else:
        after = max(request.after, first - 1, 0)
        before = min(after + 1 + EVENTS_SEARCHED_MAX, last + 1)
    kinds = None if request.kinds is None else tuple(kind.value for kind in request.kinds)
    return EventFilter(request.swarm_id, after, before, request.bead_id, kinds)


def _within_size(found: list[Event]) -> list[Event]:
    """At least one, so that the reader can always continue."""
    size = 0
    for count, event in enumerate(found):
        size += len(event.data)
        if size > PAGE_CHARACTERS_MAX and count:
            return found[:count]
    return found


def view(event: Event) -> EventView:
    data: dict[str, Any] = json.loads(event.data)
    return EventView(
        event_id=event.event_id,
        kind=event.kind,
        at=event.at_ms,
        actor=event.actor,
        bead_id=task_of_event(data),
        data=data,
    )
