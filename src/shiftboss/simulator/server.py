"""A simulated server: a real coordinator and the real calls, which can die at any moment."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.errors import ShiftbossError
from shiftboss.server.http.calls import Calls
from shiftboss.server.http.replies import Reply, error_reply, json_reply
from shiftboss.server.operations.swarms import parse_create_swarm
from shiftboss.simulator.evidence import SimulatedEvidence
from shiftboss.simulator.store import SimulatedStore

if TYPE_CHECKING:
    from shiftboss.simulator.world import World

# The server whose code runs now. Tasks inherit it, so that all tasks of a server die with it.
_OWNER: contextvars.ContextVar[SimulatedServer | None] = contextvars.ContextVar(
    "simulated_server", default=None
)
# The wall clock of all servers when the simulation starts: some day in 2027.
START_MS = 1_800_000_000_000
PRESENCE_SECONDS = 86_400.0
# Has a route of its own, beside the calls.
CREATE_SWARM = "/swarm/create"


def own_tasks(
    loop: asyncio.AbstractEventLoop,
    coroutine: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
    *,
    context: contextvars.Context | None = None,
) -> asyncio.Task[Any]:
    """The task factory of the loop: notes which server started the task."""
    assert isinstance(coroutine, Coroutine)
    task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, context=context)
    owner = _OWNER.get() if context is None else context.get(_OWNER)
    if owner is not None:
        owner.tasks[task] = None
        task.add_done_callback(lambda ended: owner.tasks.pop(ended, None))
    return task


class SimulatedServer:
    """`clock_offset_ms` is how far its wall clock is off."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.world = world
        self.clock_offset_ms = 0
        self.is_up = False
        self.is_starting = False
        self.starts = 0
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self._context = contextvars.copy_context()
        self._context.run(_OWNER.set, self)

    def clock(self) -> int:
        elapsed_ms = int(asyncio.get_running_loop().time() * 1000)
        return START_MS + elapsed_ms + self.clock_offset_ms

    async def start(self) -> None:
        """Raises ShiftbossError if the database refuses, or the server dies while it starts."""
        self.is_starting = True
        self.starts += 1
        starting = self._spawn(self._start())
        try:
            await asyncio.wait((starting,))
        finally:
            self.is_starting = False
        if not starting.cancelled():
            starting.result()

    async def _start(self) -> None:
        world = self.world
        self.store = SimulatedStore(
            world.database,
            world.leadership,
            shared=world.profile.servers > 1,
            draw_fate=lambda: world.draw_fate(self),
            draw_delay=world.draw_disk_delay,
            on_crash=self.crash,
            fails_to_read=lambda: world.has_fault(world.profile.failed_reads),
        )
        evidence = SimulatedEvidence(
            world.forge,
            world.draw_evidence_delay,
            lambda: world.has_fault(world.profile.failed_evidence),
            lambda: world.is_blind(self),
        )
        coordinator = Coordinator(
            self.store,
            evidence,
            clock=self.clock,
            elapsed=asyncio.get_running_loop().time,
            policy=world.policy,
            name=f"{self.name}-{self.starts}",
        )
        # Nobody looks at the row of a simulated server.
        coordinator.presence.seconds = PRESENCE_SECONDS
        await coordinator.start()
        self.coordinator = coordinator
        self._calls = Calls(coordinator)
        self.is_up = True

    def crash(self) -> None:
        """Kill the server: nothing of it runs anymore, and what was not committed is lost."""
        self.is_up = False
        if hasattr(self, "store"):
            self.store.die()
            self.world.leadership.leave(self.store)
        for task in list(self.tasks):
            task.cancel()

    def call_later(self, delay_seconds: float, callback: Callable[[], None]) -> None:
        """Let the server do something later, in its own name."""
        loop = asyncio.get_running_loop()
        loop.call_later(delay_seconds, callback, context=self._context.copy())

    def handle(self, path: str, body: bytes, key: str | None) -> asyncio.Task[Reply]:
        return self._spawn(self._handle(path, body, key))

    def _spawn(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        return asyncio.get_running_loop().create_task(coroutine, context=self._context.copy())

    async def _handle(self, path: str, body: bytes, key: str | None) -> Reply:
        if path == CREATE_SWARM:
            return await self._create_swarm(body)
        call = self._calls.find("POST", path)
        assert call is not None, path
        headers = [(b"idempotency-key", key.encode())] if key is not None else []
        try:
            return call.reply(await call.begin(headers, body))
        except ShiftbossError as error:
            return call.error_reply(error)

    async def _create_swarm(self, body: bytes) -> Reply:
        try:
            request = parse_create_swarm(body, [])
            await self.coordinator.swarms.create_swarm(request)
        except ShiftbossError as error:
            return error_reply(error, CREATE_SWARM)
        return json_reply(b"{}")
