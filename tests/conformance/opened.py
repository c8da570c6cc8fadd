"""An open store that records the events of its commits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from shiftboss.protocol.events import Event
from shiftboss.store.deadlines import DEFAULT_DEADLINES, DatabaseDeadlines
from shiftboss.store.open_store import store_at
from shiftboss.store.port import Store, UseCase
from tests.conformance.store.rows import SWARM, swarm

T = TypeVar("T")


class OpenStore:
    """`commits` has a list of events for each call of the commit listener."""

    def __init__(self, address: str, deadlines: DatabaseDeadlines = DEFAULT_DEADLINES) -> None:
        self.address = address
        self.store: Store = store_at(address, deadlines=deadlines)
        self.commits: list[list[Event]] = []

    @property
    def heard(self) -> list[Event]:
        return [event for commit in self.commits for event in commit]

    async def write(self, use_case: UseCase[T], partition: str = SWARM) -> T:
        return await self.store.write(use_case, partition)

    async def read(self, use_case: UseCase[T]) -> T:
        return await self.store.read(use_case)

    async def add_swarm(self, swarm_id: str = SWARM) -> None:
        assert await self.write(lambda tx: tx.add_swarm(swarm(swarm_id)), swarm_id)


@asynccontextmanager
async def opened(
    address: str, deadlines: DatabaseDeadlines = DEFAULT_DEADLINES
) -> AsyncIterator[OpenStore]:
    it = OpenStore(address, deadlines)
    await it.store.open(it.commits.append, lambda: None)
    try:
        yield it
    finally:
        await it.store.close()
