"""The store as the duties of the leader see it: fenced by the leadership.

A server that was stopped for a while may not know yet that another one leads. What its duties
write is refused in the transaction itself, and they do not read on: nothing outside of the database
follows from an old term either, beyond what was under way.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TypeVar

from shiftboss.errors import LeadershipLost
from shiftboss.store.port import Store, Transaction, UseCase

T = TypeVar("T")


class LeaderStore:
    """See `shiftboss.store.port.Transactions`. Raises LeadershipLost unless this server leads."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def write(self, use_case: UseCase[T], partition: str) -> asyncio.Future[T]:
        term = self._store.leader_term()
        if term is None:
            return self._store.write(use_case, partition)
        return self._store.write(partial(_fenced, use_case=use_case, term=term), partition)

    async def read(self, use_case: UseCase[T]) -> T:
        self._store.leader_term()
        return await self._store.read(use_case)

    def leads(self) -> bool:
        """For effects outside of the database."""
        try:
            self._store.leader_term()
        except LeadershipLost:
            return False
        return True


def _fenced(tx: Transaction, use_case: UseCase[T], term: int) -> T:
    if not tx.hold_term(term):
        raise LeadershipLost
    return use_case(tx)
