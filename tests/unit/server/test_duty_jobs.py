"""Jobs of a duty that run at once."""

from __future__ import annotations

import asyncio

import pytest

from shiftboss.coordinator.duties.timer import run_all
from shiftboss.errors import StoreUnavailable


def test_a_job_that_fails_does_not_stop_the_others_and_its_error_is_raised_as_it_is() -> None:
    """The store may refuse one of several changes. The duty treats its error as it treats that of a
    single job: it logs one line and tries again later."""
    ended: list[str] = []

    async def refused() -> None:
        raise StoreUnavailable("disk full")

    async def slow() -> None:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        ended.append("slow")

    with pytest.raises(StoreUnavailable, match="disk full"):
        asyncio.run(run_all([refused(), slow()]))
    assert ended == ["slow"]


def test_no_jobs_are_no_error() -> None:
    asyncio.run(run_all([]))
