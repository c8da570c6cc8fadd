"""Which simulated server leads. It changes when the leader dies, and whenever chance says so; for a
moment two servers may believe that they lead."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

Duties = Callable[[], Awaitable[None]]


class _Candidate:
    def __init__(self, on_call: Callable[[], None]) -> None:
        self.on_call = on_call
        self.is_elected = asyncio.Event()
        self.is_deposed = asyncio.Event()


class SimulatedLeadership:
    def __init__(self, notice_seconds: Callable[[], float]) -> None:
        """`notice_seconds`: how long a deposed leader goes on."""
        self._candidates: dict[object, _Candidate] = {}
        self._leader: object | None = None
        self._notice_seconds = notice_seconds

    async def run(self, store: object, duties: Duties, on_call: Callable[[], None]) -> None:
        """Never returns."""
        candidate = self._candidates[store] = _Candidate(on_call)
        try:
            self._elect()
            while True:
                await candidate.is_elected.wait()
                running = asyncio.ensure_future(duties())
                try:
                    await candidate.is_deposed.wait()
                finally:
                    running.cancel()
                    await asyncio.gather(running, return_exceptions=True)
                candidate.is_deposed.clear()
        finally:
            self.leave(store)

    def leave(self, store: object) -> None:
        self._candidates.pop(store, None)
        if self._leader is store:
            self._leader = None
            self._elect()

    def change(self) -> None:
        """Another server leads from now on; the former leader learns of it later."""
        former = self._leader
        others = [store for store in self._candidates if store is not former]
        if former is None or not others:
            return
        deposed = self._candidates[former]
        deposed.is_elected.clear()
        asyncio.get_running_loop().call_later(self._notice_seconds(), deposed.is_deposed.set)
        self._leader = others[0]
        self._candidates[others[0]].is_elected.set()

    def call(self, delay_seconds: float) -> None:
        candidate = self._candidates.get(self._leader)
        if candidate is not None:
            asyncio.get_running_loop().call_later(delay_seconds, candidate.on_call)

    def _elect(self) -> None:
        if self._leader is None and self._candidates:
            self._leader = next(iter(self._candidates))
            self._candidates[self._leader].is_elected.set()
