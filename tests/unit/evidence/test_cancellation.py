"""Work that goes on to its end while whoever waits for it is cancelled."""

from __future__ import annotations

import asyncio

import pytest

from shiftboss.system.cancellation import run_to_completion

pytestmark = pytest.mark.anyio


async def test_who_is_cancelled_waits_for_the_end_and_is_cancelled_then() -> None:
    go, ended = asyncio.Event(), []

    async def work() -> str:
        await go.wait()
        ended.append("work")
        return "done"

    waiting = asyncio.create_task(run_to_completion(work()))
    for _ in range(3):
        await asyncio.sleep(0)
        waiting.cancel()
    await asyncio.sleep(0)
    assert not waiting.done()
    go.set()
    await asyncio.wait((waiting,))
    assert (waiting.cancelled(), ended) == (True, ["work"])


async def test_nobody_cancelled_the_result_or_the_error_is_the_works() -> None:
    async def good() -> int:
        return 3

    async def bad() -> int:
        raise OSError("full")

    assert await run_to_completion(good()) == 3
    with pytest.raises(OSError, match="full"):
        await run_to_completion(bad())


async def test_an_error_of_the_work_does_not_hide_that_one_was_cancelled() -> None:
    go = asyncio.Event()

    async def bad() -> None:
        await go.wait()
        raise OSError("full")

    waiting = asyncio.create_task(run_to_completion(bad()))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.sleep(0)
    go.set()
    await asyncio.wait((waiting,))
    assert waiting.cancelled()
