"""Work that runs to its end even if its caller is cancelled."""

from __future__ import annotations

import asyncio

import pytest

from shiftboss.system.processes.cancellation import run_to_completion, run_together

pytestmark = pytest.mark.anyio


async def test_a_cancelled_caller_waits_for_the_work_to_end_first() -> None:
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


async def test_without_a_cancellation_the_works_result_or_error_is_returned() -> None:
    async def good() -> int:
        return 3

    async def bad() -> int:
        raise OSError("full")

    assert await run_to_completion(good()) == 3
    with pytest.raises(OSError, match="full"):
        await run_to_completion(bad())


async def test_an_error_in_the_work_does_not_hide_the_cancellation() -> None:
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


@pytest.mark.parametrize("how", ["failed", "cancelled"])
async def test_nothing_goes_on_after_work_that_ran_together(how: str) -> None:
    started, cleaned_up = asyncio.Event(), []

    async def long_work() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned_up.append("work")

    async def other_work() -> None:
        await started.wait()
        if how == "failed":
            raise OSError("full")
        await asyncio.Event().wait()

    both = asyncio.create_task(run_together(long_work(), other_work()))
    await started.wait()
    if how == "cancelled":
        both.cancel()
    with pytest.raises(OSError if how == "failed" else asyncio.CancelledError):
        await both
    assert cleaned_up == ["work"]


async def test_results_of_work_that_ran_together_are_in_order() -> None:
    async def later(value: int) -> int:
        await asyncio.sleep(0)
        return value

    assert await run_together(later(1), later(2)) == [1, 2]
    assert await run_together() == []
