"""One open store for each test, of each kind."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.conformance.bus_room import BusRoom, bus_room
from tests.conformance.opened import OpenStore, opened


@pytest.fixture
async def store(store_address: str) -> AsyncIterator[OpenStore]:
    """An open store on an empty database."""
    async with opened(store_address) as it:
        yield it


@pytest.fixture
async def with_swarm(store: OpenStore) -> OpenStore:
    """The same with the swarm SWARM in it."""
    await store.add_swarm()
    return store


@pytest.fixture
async def room(store_address: str) -> AsyncIterator[BusRoom]:
    """A bus on an empty database, with a clock that stands still."""
    async with bus_room(store_address) as it:
        yield it
