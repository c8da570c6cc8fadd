"""The events of every swarm, folded, are what the store has: checked at the end of every test that
goes through the use cases."""

from __future__ import annotations

import json
from typing import Final, Protocol

from shiftboss.coordinator.board.cards import listing
from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.coordinator.invariants.events import fold_swarm, is_complete_log, state_equals_fold
from shiftboss.coordinator.invariants.facts import all_swarm_ids, read_swarm
from shiftboss.protocol.board.cards import ListCardsRequest
from shiftboss.rules.tasks.event_fold import task_of_event
from shiftboss.rules.tasks.folded_columns import columns_of
from shiftboss.store.port import EventFilter, Transaction

EVENTS_MAX: Final = 100_000


class Checked(Protocol):
    coordinator: Coordinator
    writes_rows: bool


async def check_fold(fixture: Checked) -> None:
    if fixture.writes_rows:
        return
    store = fixture.coordinator.store
    assert await store.read(_broken) == []
    assert await store.read(_other_columns) == []
    assert await store.read(_unlisted_events) == []


def _other_columns(tx: Transaction) -> list[tuple[str, object, object]]:
    """A replay of all events shows the columns of the board: where it does not."""
    other: list[tuple[str, object, object]] = []
    for swarm_id in all_swarm_ids(tx):
        facts = read_swarm(tx, swarm_id)
        if facts is None or not is_complete_log(facts):
            continue
        lands = tx.plan_run(swarm_id) is not None
        replayed = columns_of(fold_swarm(tx, swarm_id), lands=lands)
        page = listing(tx, ListCardsRequest(swarm_id=swarm_id), None, 0)
        shown = {card.bead_id: card.column for card in page.cards}
        if replayed != shown and page.next_after is None:
            other.append((swarm_id, replayed, shown))
    return other


def _broken(tx: Transaction) -> list[str]:
    return [
        str(broken)
        for swarm_id in all_swarm_ids(tx)
        if (facts := read_swarm(tx, swarm_id)) is not None and is_complete_log(facts)
        for broken in state_equals_fold(facts, fold_swarm(tx, swarm_id))
    ]


def _unlisted_events(tx: Transaction) -> list[tuple[str, int, str]]:
    """Events about a task that are not in the list of its events. What a swarm has spent is not
    about the task that has used the budget up."""
    unlisted: list[tuple[str, int, str]] = []
    for swarm_id in all_swarm_ids(tx):
        every = EventFilter(swarm_id, 0, EVENTS_MAX)
        about: dict[str, set[int]] = {}
        for event in tx.events_between(every, EVENTS_MAX, newest_first=False):
            data = json.loads(event.data)
            task_id = task_of_event(data)
            if task_id is not None and data.get("scope") != "swarm":
                about.setdefault(task_id, set()).add(event.event_id)
        for task_id, meant in about.items():
            wanted = every._replace(task_id=task_id)
            found = tx.events_between(wanted, EVENTS_MAX, newest_first=False)
            missing = meant - {event.event_id for event in found}
            unlisted += [(swarm_id, event_id, task_id) for event_id in missing]
    return unlisted
