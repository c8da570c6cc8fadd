"""Simulated workers on the bus: the real SDK, in the hands of somebody who is slow, careless, and
may die at any moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from shiftboss.client.bus_client import BusClient
from shiftboss.client.errors import ServerUnreachable
from shiftboss.errors import Conflict, ContractViolations, InvalidRequest, NotFound, ShiftbossError
from shiftboss.simulator.forge import JOB, Commit
from shiftboss.simulator.network import ADDRESS, SimulatedHttp
from shiftboss.worker.bus_task import BusTask
from shiftboss.worker.bus_worker import BusSession
from shiftboss.worker.heartbeats import HEARTBEAT_SECONDS, heartbeat_members, is_held

if TYPE_CHECKING:
    from shiftboss.simulator.world import World

# The report was refused: the task is not the worker's any more, or not in a state for it.
_LOST = (Conflict, NotFound, InvalidRequest)


class SimulatedClient(BusClient):
    def __init__(self, world: World, name: str, swarm_id: str) -> None:
        super().__init__(ADDRESS, swarm_id, SimulatedHttp(world, name))

    async def try_once(self, operation: str, members: dict[str, object]) -> dict[str, Any]:
        """Without a retry: also raises ServerUnreachable."""
        return (await self._http.send(self._request(operation, members))).answer


class SimulatedHeartbeats:
    """`TaskHeartbeats` without a thread. A worker that is frozen sends none."""

    def __init__(
        self,
        client: BusClient,
        worker: str,
        bead_id: str,
        epoch: int,
        seconds: float,
        on_lost: Callable[[], None],
    ) -> None:
        assert isinstance(client, SimulatedClient)
        self._client = client
        self._attempt = (bead_id, epoch)
        self._members = heartbeat_members(worker, bead_id, epoch, seconds)
        self._seconds = seconds
        self._on_lost = on_lost
        self._task: asyncio.Task[None] | None = None

    def start(self, *, lease_runs: bool = False) -> None:
        self._task = asyncio.ensure_future(self._run(self._seconds if lease_runs else 0))

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        while True:
            try:
                answer = await self._client.try_once("heartbeat", self._members)
                if not is_held(answer, *self._attempt):
                    break
            except ServerUnreachable:
                pass
            except ShiftbossError:
                break
            await asyncio.sleep(self._seconds)
        self._on_lost()


class SimulatedWorker:
    """Takes tasks forever. `crash` loses everything but its name."""

    def __init__(self, world: World, name: str, swarm_id: str) -> None:
        self.world = world
        self.name = name
        self.swarm_id = swarm_id
        self.held: BusTask | None = None
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._running = self.world.spawn(self._run())

    def crash(self) -> None:
        if self._running is not None:
            self._running.cancel()
        if self.held is not None:
            self.held.leave()  # its heartbeats die with it
        self.held = None

    async def _run(self) -> None:
        client = SimulatedClient(self.world, self.name, self.swarm_id)
        session = BusSession(
            client, self.name, HEARTBEAT_SECONDS, managed=True, heartbeats=SimulatedHeartbeats
        )
        while True:
            self.held = task = await session.next()
            try:
                await self._work(task)
            except _LOST:
                task.leave()
            self.held = None

    async def _work(self, task: BusTask) -> None:
        chance = self.world.chance
        await asyncio.sleep(chance.uniform(0, 60))
        if chance.happens(0.1):
            # Frozen: no heartbeat, for longer than the lease; then it continues.
            task.leave()
            await asyncio.sleep(chance.uniform(10, 200))
            task.is_over = False
        if chance.happens(0.2):
            await task.progress(commit="abc1234")
        if chance.happens(0.1):
            await task.ask("what now?")
        await self._finish(task)

    async def _finish(self, task: BusTask) -> None:
        chance = self.world.chance
        if chance.happens(0.1):
            await task.failed("it did not work")
        elif chance.happens(0.1):
            await task.checkpoint(1, [], [])
        elif task.handoff is None:
            await task.done()
        elif (repo := self.world.repo_of(task.bead_id)) is not None and chance.happens(0.7):
            await self._push(task, repo)
        else:
            await self._claim(task)

    def _commit(self, task: BusTask, repo_path: str) -> Commit:
        world = self.world
        return world.forge.commit(
            world.chance,
            asyncio.get_running_loop().time(),
            repo_path,
            task.bead_id,
            is_good=not world.chance.happens(world.profile.bad_work),
            red_ci=world.profile.red_ci,
        )

    async def _claim(self, task: BusTask) -> None:
        """Claim until it is accepted, or give up."""
        for _ in range(3):
            commit = self._commit(task, self.world.path_of(task.bead_id))
            try:
                await task.done(commit.sha, "done")
            except ContractViolations:
                await asyncio.sleep(self.world.chance.uniform(1, 30))
            else:
                return
        await task.failed("the contract is too hard")

    async def _push(self, task: BusTask, repo: str) -> None:
        """Follow the completion contract: work, push, look at CI, fix."""
        await task.working("on it")
        for _ in range(3):
            commit = self._commit(task, self.world.path_of(task.bead_id))
            await task.pushed(repo, commit.sha, "1")
            if self.world.chance.happens(0.3):
                task.leave()  # the server finishes what was pushed
                return
            if (await task.ci_result())["state"] == "passed":
                task.leave()
                return
            await task.fixing(JOB, "it is red")
            await asyncio.sleep(self.world.chance.uniform(1, 30))
        await task.failed("CI stays red")
