"""Shiftboss through its own library, with a producer that hands over all jobs it has at once."""

from __future__ import annotations

import asyncio
from typing import Final

from bench.peers.adapters.shiftboss_http import server
from bench.peers.adapters.shiftboss_sdk import work
from bench.peers.records import Kind, record
from shiftboss import BusProducer

__all__ = ["producer", "work"]

# Of one call.
_TASKS_MAX: Final = 1_000


class AllAtOnce:
    def __init__(self, producer: BusProducer) -> None:
        self._runner = asyncio.Runner()
        self._producer = producer

    def send(self, jobs: range) -> None:
        for job in jobs:
            record(Kind.SENT, job)
        self._runner.run(self._send(jobs))

    async def _send(self, jobs: range) -> None:
        for first in range(0, len(jobs), _TASKS_MAX):
            part = jobs[first : first + _TASKS_MAX]
            await self._producer.submit_many(f"job-{job}" for job in part)


def producer(number: int) -> AllAtOnce:
    return AllAtOnce(BusProducer(server=server(number)))
