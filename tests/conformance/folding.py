"""The events of every swarm, folded, are what the store has: checked at the end of every test that
goes through the use cases."""

from __future__ import annotations

from typing import Protocol

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.coordinator.invariants.events import fold_swarm, is_complete_log, state_equals_fold
from shiftboss.coordinator.invariants.facts import all_swarm_ids, read_swarm
from shiftboss.store.port import Transaction


class Checked(Protocol):
    coordinator: Coordinator
    writes_rows: bool


async def check_fold(fixture: Checked) -> None:
    if not fixture.writes_rows:
        assert await fixture.coordinator.store.read(_broken) == []


def _broken(tx: Transaction) -> list[str]:
    return [
        str(broken)
        for swarm_id in all_swarm_ids(tx)
        if (facts := read_swarm(tx, swarm_id)) is not None and is_complete_log(facts)
        for broken in state_equals_fold(facts, fold_swarm(tx, swarm_id))
    ]
