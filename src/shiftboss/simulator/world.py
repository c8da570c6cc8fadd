"""The world of one simulation: servers, workers, network and database."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import Context
from functools import partial
from typing import Any

from shiftboss.client.errors import ServerUnreachable
from shiftboss.coordinator.invariants.facts import BrokenInvariant
from shiftboss.errors import ShiftbossError
from shiftboss.protocol.bus import DEFAULT_SWARM
from shiftboss.protocol.events import Event, EventKind
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.simulator.chance import Chance, Profile
from shiftboss.simulator.database import Fate, SimulatedDatabase
from shiftboss.simulator.forge import OWN_REPO, Forge, simulated_policy
from shiftboss.simulator.history import History
from shiftboss.simulator.leadership import SimulatedLeadership
from shiftboss.simulator.network import Network, SentRequest, SimulatedHttp
from shiftboss.simulator.packets import PACKET_SWARM, PacketWorker
from shiftboss.simulator.promises import Promises
from shiftboss.simulator.server import CREATE_SWARM, SimulatedServer
from shiftboss.simulator.workers import SimulatedWorker

TASKS_MAX = 12
OPERATOR_TRIES = 6


class World:
    """`is_calm`: no more faults. Whatever is due then must happen."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.profile = Profile.of_seed(seed)
        self.chance = Chance(f"{seed}/start")
        self.is_calm = False
        self.broken: list[BrokenInvariant] = []
        self.forge = Forge()
        self.policy = simulated_policy()
        self.promises = Promises(self.broken.append)
        self.history = History(self.broken.append, self._on_event)
        self.database = SimulatedDatabase(self._on_commit)
        self.leadership = SimulatedLeadership(
            lambda: self.chance.uniform(0, 10), self.database.begin_term
        )
        self.network = Network(self)
        self.swarm_id = DEFAULT_SWARM
        self.repos: dict[str, str | None] = {}
        self.task_ids: list[str] = []
        self.questions = 0
        self.pause_seconds = 0.0
        self.servers = [
            SimulatedServer(self, f"server-{number}") for number in range(self.profile.servers)
        ]
        self.workers = [
            SimulatedWorker(self, f"worker-{number}", self.swarm_id)
            for number in range(self.profile.workers)
        ]
        self.packets: list[PacketWorker] = []
        self.worker_names = [worker.name for worker in self.workers] or ["nobody"]
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self.has_changed = True

    # -- chance

    def has_fault(self, probability: float) -> bool:
        return not self.is_calm and self.chance.happens(probability)

    def is_blind(self, server: SimulatedServer) -> bool:
        """Whether the server cannot verify claims; it can pass them on."""
        return self.profile.has_blind_server and server is self.servers[-1] and not self.is_calm

    def draw_network_delay(self) -> float:
        if self.has_fault(self.profile.slow_messages):
            return self.chance.uniform(1, 60)
        return self.chance.uniform(0.0005, 0.02)

    def draw_disk_delay(self) -> float:
        return self.chance.uniform(0.0005, 0.01)

    def draw_evidence_delay(self) -> float:
        return self.chance.uniform(0.1, 20)

    def draw_fate(self, server: SimulatedServer) -> Fate:
        if self.has_fault(self.profile.crashes_in_commits):
            self.history.note(f"{server.name} dies in a commit")
            self._restart_later(server)
            return self.chance.choice(("crash_before", "crash_after"))
        if self.has_fault(self.profile.refused_commits):
            return "refused"
        return "unsure" if self.has_fault(self.profile.unsure_commits) else "made"

    # -- names

    def new_task_id(self) -> str:
        """A new task, until there are enough."""
        if len(self.task_ids) < TASKS_MAX:
            self.task_ids.append(f"task-{len(self.task_ids) + 1}")
            return self.task_ids[-1]
        return self.chance.choice(self.task_ids)

    def any_task_id(self) -> str:
        return self.chance.choice(self.task_ids or ["task-1"])

    def draw_attempt(self) -> Assignment | None:
        """One of the attempts that are going on."""
        held = self.database.transaction().all_assignments(self.swarm_id)
        return self.chance.choice(held) if held else None

    def repo_of(self, task_id: str) -> str | None:
        """The name of its repo in the policy."""
        return self.repos.get(task_id)

    def path_of(self, task_id: str) -> str:
        repo = self.repos.get(task_id)
        return OWN_REPO if repo is None else f"/simulated/{repo}"

    # -- life

    async def start(self) -> None:
        for server in self.servers:
            await self._start_server(server)
        for worker in self.workers:
            worker.start()
        if self.profile.packets:
            self.send_as_operator(SentRequest(CREATE_SWARM, {"swarm_id": PACKET_SWARM}, None))
            self.packets = [PacketWorker(self, number, PACKET_SWARM) for number in (1, 2)]
            for packet in self.packets:
                packet.start()

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something that belongs to no server, whichever one is at work now."""
        task = asyncio.get_running_loop().create_task(coroutine, context=Context())
        self._tasks[task] = None
        task.add_done_callback(lambda ended: self._tasks.pop(ended, None))
        return task

    async def _start_server(self, server: SimulatedServer) -> None:
        while not (server.is_up or server.is_starting):
            try:
                await server.start()
            except ShiftbossError:
                server.crash()
            if not server.is_up:
                await asyncio.sleep(1)

    def crash_server(self, server: SimulatedServer) -> None:
        if server.is_up:
            self.history.note(f"{server.name} dies")
            server.crash()
            self._restart_later(server)

    def _restart_later(self, server: SimulatedServer) -> None:
        self.spawn(self._restart(server, self.chance.uniform(0.1, 90)))

    async def _restart(self, server: SimulatedServer, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self._start_server(server)

    def crash_worker(self, worker: SimulatedWorker | PacketWorker) -> None:
        self.history.note(f"{worker.name} dies")
        worker.crash()
        self.spawn(self._restart_worker(worker, self.chance.uniform(0, 120)))

    async def _restart_worker(self, worker: SimulatedWorker | PacketWorker, seconds: float) -> None:
        await asyncio.sleep(seconds)
        worker.crash()  # it may have been started twice
        worker.start()

    # -- requests

    def send_as_operator(self, sent: SentRequest) -> None:
        self.spawn(self._send(SimulatedHttp(self, "operator"), sent, OPERATOR_TRIES))

    def send_lie(self, sent: SentRequest) -> None:
        self.spawn(self._send(SimulatedHttp(self, "liar"), sent, 1))

    async def _send(self, http: SimulatedHttp, sent: SentRequest, tries: int) -> None:
        for _ in range(tries):
            try:
                await http.exchange(sent)
            except ServerUnreachable:
                await asyncio.sleep(1)
            else:
                return

    # -- commits

    def _on_commit(self, store: object) -> None:
        self.has_changed = True
        tx = self.database.transaction()
        events = self.history.read(tx, [self.swarm_id, PACKET_SWARM])
        if not events:
            return
        for server in self.servers:
            if not server.is_up or server.store is store:
                continue
            if self.has_fault(self.profile.lost_events):
                server.call_later(self.chance.uniform(0.1, 5), server.store.miss_events)
            else:
                deliver = partial(server.store.receive, events)
                server.call_later(self.chance.uniform(0.001, 0.1), deliver)

    def _on_event(self, event: Event, data: dict[str, Any]) -> None:
        self.promises.note(event, data)
        if event.kind == EventKind.QUESTION_ASKED.value:
            self.questions = max(self.questions, data["question_id"])

    def close(self) -> None:
        for server in self.servers:
            server.crash()
        for task in list(self._tasks):
            task.cancel()
