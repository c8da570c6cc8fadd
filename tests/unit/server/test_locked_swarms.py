"""Use cases that wait for a lock, with batches that need no database."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from shiftboss.protocol.events import Event
from shiftboss.store.batches import BatchResult, Outcome, RunLater
from shiftboss.store.postgres.locked_swarms import LockedSwarms, SwarmUseCase
from shiftboss.store.postgres.session import LockedElsewhereError

pytestmark = pytest.mark.anyio

EVENT = Event("s", 1, "swarm_created", 1, "{}")


async def test_a_listener_that_fails_does_not_keep_the_caller_waiting() -> None:
    def locked(use_cases: Sequence[SwarmUseCase[Any]]) -> BatchResult:
        return BatchResult([Outcome(error=LockedElsewhereError()) for _ in use_cases], [])

    def patient(use_cases: Sequence[SwarmUseCase[Any]], _seconds: float) -> BatchResult:
        return BatchResult([Outcome("done") for _ in use_cases], [EVENT])

    def fail(_events: Sequence[Event]) -> None:
        raise LookupError

    loop = asyncio.get_running_loop()
    failures: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _loop, context: failures.append(context))
    swarms = LockedSwarms(locked, patient, fail, lock_seconds=10)
    try:
        (outcome,) = swarms.run_batch([SwarmUseCase(lambda _tx: None, "s")]).outcomes
        assert isinstance(outcome.error, RunLater)
        future: asyncio.Future[str] = loop.create_future()
        outcome.error.enqueue(future)
        async with asyncio.timeout(30):
            assert await future == "done"
    finally:
        await swarms.close()
    assert isinstance(failures[0]["exception"], LookupError)
