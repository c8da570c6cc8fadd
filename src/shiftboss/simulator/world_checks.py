"""The checks of a simulated world: after each step, and once everything has calmed down."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.coordinator.invariants.checks import check_shared, check_swarm
from shiftboss.coordinator.invariants.claims import unverified_receipt
from shiftboss.coordinator.invariants.events import state_equals_fold
from shiftboss.coordinator.invariants.facts import SwarmFacts, read_store, read_swarm
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.tasks.packets import packet_task_id
from shiftboss.simulator.forge import simulated_key
from shiftboss.simulator.packets import PACKET_SWARM, STEPS
from shiftboss.store.row_cache import CachedRows

if TYPE_CHECKING:
    from shiftboss.simulator.world import World


class WorldChecks:
    """Whatever is broken is appended to `world.broken`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._graph = ActivePolicy(world.policy).graph
        self._verified: set[str] = set()

    def after_step(self, *, thoroughly: bool = False) -> None:
        """Every invariant of the store and every promise."""
        self._world.promises.check_polls(asyncio.get_running_loop().time())
        if not self._world.has_changed and not thoroughly:
            return
        self._world.has_changed = False
        tx = self._world.database.transaction()
        store = read_store(tx)
        self._world.broken += check_shared(store, self._graph)
        for swarm_id in store.swarm_ids:
            facts = read_swarm(tx, swarm_id)
            if facts is None:
                continue
            self._world.broken += check_swarm(facts, store)
            self._world.promises.check_swarm(facts)
            self._world.broken += state_equals_fold(facts, self._world.history.boards[swarm_id])
            self._check_receipts(facts)
            self._check_row_caches(facts)

    def _check_receipts(self, facts: SwarmFacts) -> None:
        """Every receipt verifies, and is about a commit that deserves it."""
        for rows in facts.receipts.values():
            for row in rows:
                if row.receipt_id in self._verified:
                    continue
                self._verified.add(row.receipt_id)
                invalid = unverified_receipt(row, simulated_key().public_pem)
                if invalid is not None:
                    self._world.broken.append(invalid)
                commit = self._world.forge.commits.get(row.commit_sha)
                if commit is None or not commit.is_good or commit.task_id != row.task_id:
                    detail = f"has a receipt for {row.commit_sha}, which does not do it"
                    self._world.broken.append(facts.broken("truth", f"task {row.task_id}", detail))

    def _check_row_caches(self, facts: SwarmFacts) -> None:
        """What a server remembers of a row is what is stored."""
        for server in self._world.servers:
            cache = server.store.row_cache if server.is_up else None
            if cache is None:
                continue
            tables: tuple[tuple[CachedRows[Any], Mapping[str, object]], ...] = (
                (cache.tasks, facts.tasks),
                (cache.workers, facts.workers),
                (cache.assignments, facts.assignments),
            )
            for remembered, stored in tables:
                for (swarm_id, name), row in remembered.items():
                    if swarm_id == facts.swarm.swarm_id and row != stored.get(name):
                        detail = f"{server.name} remembers {row}, stored is {stored.get(name)}"
                        self._world.broken.append(facts.broken("row_cache", name, detail))

    def nothing_waits(self) -> None:
        """No task is ready while a worker waits for one."""
        tx = self._world.database.transaction()
        facts = read_swarm(tx, self._world.swarm_id)
        waiting = [
            name
            for server in self._world.servers
            if server.is_up
            for name in server.coordinator.hub.parked_workers(self._world.swarm_id)
            if facts is not None and facts.workers[name].task_id is None
        ]
        task = tx.next_task(self._world.swarm_id) if facts is not None and waiting else None
        if facts is not None and task is not None:
            detail = f"is ready, and {', '.join(waiting)} waits for a task"
            self._world.broken.append(facts.broken("idle", f"task {task.task_id}", detail))

    def packets_are_heard(self) -> None:
        """A packet worker that has nothing left to deliver was heard: its packet is complete."""
        facts = read_swarm(self._world.database.transaction(), PACKET_SWARM)
        for packet in self._world.packets:
            if not packet.is_finished or facts is None:
                continue
            held = facts.assignments.get(packet_task_id(packet.packet_id))
            if held is None or (held.state, held.steps_completed) != (WorkerState.COMPLETE, STEPS):
                detail = f"was reported complete, and is {held.state if held else 'not there'}"
                subject = f"packet {packet.packet_id}"
                self._world.broken.append(facts.broken("lost_report", subject, detail))
