"""Which simulated server leads. It changes when the leader dies, and whenever chance says so; for a
moment two servers may believe that they lead, and the term in the database fences the former."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from shiftboss.errors import LeadershipLost

Duties = Callable[[], Awaitable[None]]


class _Candidate:
    def __init__(self, on_call: Callable[[], None]) -> None:
        self.on_call = on_call
        self.is_elected = asyncio.Event()
        self.is_deposed = asyncio.Event()
        # As far as the server knows.
        self.term: int | None = None


class SimulatedLeadership:
    def __init__(
        self, notice_seconds: Callable[[], float], begin_term: Callable[[int], None]
    ) -> None:
        """`notice_seconds`: how long a deposed leader does not know it. `begin_term` stores a new
        term."""
        self._begin_term = begin_term
        self._term = 0
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
                if not candidate.is_elected.is_set():
                    candidate.term = None
        finally:
            self.leave(store)

    def term(self, store: object) -> int:
        candidate = self._candidates.get(store)
        if candidate is None or candidate.term is None:
            raise LeadershipLost
        return candidate.term

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
        self._lead(others[0])

    def call(self, delay_seconds: float) -> None:
        candidate = self._candidates.get(self._leader)
        if candidate is not None:
            asyncio.get_running_loop().call_later(delay_seconds, candidate.on_call)

    def _elect(self) -> None:
        if self._leader is None and self._candidates:
            self._lead(next(iter(self._candidates)))

    def _lead(self, store: object) -> None:
        self._leader = store
        self._term += 1
        self._begin_term(self._term)
        self._candidates[store].term = self._term
        self._candidates[store].is_elected.set()
