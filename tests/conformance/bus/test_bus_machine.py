"""Random sequences of everything workers, orchestrator and time can do to the bus, on both stores.

After every step the stored rows are checked against the invariants; a refused step must not have
changed anything. In the end one last worker finishes whatever is left: no task is lost.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.coordinator.invariants.checks import check_swarm
from shiftboss.coordinator.invariants.events import fold_swarm, state_equals_fold
from shiftboss.coordinator.invariants.facts import BrokenInvariant, StoreFacts, read_swarm
from shiftboss.errors import NotHeld, ShiftbossError, StaleEpoch
from shiftboss.protocol.messages import MessageType
from shiftboss.protocol.questions import AnswerQuestionRequest, ListQuestionsRequest
from shiftboss.protocol.states import WorkerState
from shiftboss.protocol.swarms import CreateSwarmRequest
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.tasks import has_left_checkpoint
from shiftboss.store.open_store import store_at
from shiftboss.store.port import Transaction
from shiftboss.store.sqlite.store import SqliteStore
from tests.conformance.bus.bus_fixtures import BusFixture, Rows, StillClock

T = TypeVar("T")

WORKERS = st.sampled_from(["v", "w", "x"])
TASKS = [f"t{number}" for number in range(6)]
TASK_NAMES = st.sampled_from(TASKS)
AT_WORK = (
    WorkerState.EXECUTING,
    WorkerState.VERIFYING,
    WorkerState.SELF_REVIEW,
    WorkerState.BLOCKED,
)
EXAMPLES = {"sqlite": 60, "postgres": 15}


class Bus(RuleBasedStateMachine):
    """One swarm of its own in a shared store."""

    def __init__(self, runner: asyncio.Runner, coordinator: Coordinator, swarm_id: str) -> None:
        super().__init__()
        self._runner = runner
        clock = coordinator.clock
        assert isinstance(clock, StillClock)
        self.bus = BusFixture(coordinator, clock, swarm_id)
        self.depends_on: dict[str, list[str]] = {}
        self.attempts: set[tuple[str, str, int]] = set()
        self.rows = Rows({}, {}, {}, {})

    def run(self, step: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(step)

    def may(self, step: Coroutine[Any, Any, object]) -> ShiftbossError | None:
        """Try the operation. If it is refused, it must not have changed anything."""
        refused: ShiftbossError | None = None
        try:
            self.run(step)
        except ShiftbossError as error:
            refused = error
        before = self.rows
        self.look()
        assert refused is None or self.rows == before, f"refused, yet changed: {refused}"
        return refused

    def look(self) -> None:
        before, self.rows = self.rows, self.run(self.bus.rows())
        for name, task in before.tasks.items():
            after = self.rows.tasks[name]
            assert after.epoch >= task.epoch
            if task.status == "done":
                assert after.status == "done"
            if task.status == "cancelled":  # only a retry brings it back
                assert after.status not in ("done", "failed")
        for held in self.rows.assignments.values():
            self.attempts.add((held.worker, held.task_id, held.epoch))

    def in_state(self, *states: WorkerState) -> list[tuple[str, str]]:
        """(worker, task) of the attempts in one of the states, or of all attempts."""
        return [
            (held.worker, name)
            for name, held in sorted(self.rows.assignments.items())
            if not states or held.state in states
        ]

    def statuses(self) -> list[str]:
        return [task.status for task in self.rows.tasks.values()]

    @initialize(
        priorities=st.lists(st.integers(-1, 1), min_size=len(TASKS), max_size=len(TASKS)),
        data=st.data(),
    )
    def open(self, priorities: list[int], data: st.DataObject) -> None:
        self.run(
            self.bus.coordinator.swarms.create_swarm(CreateSwarmRequest(swarm_id=self.bus.swarm_id))
        )
        for name, priority in zip(TASKS, priorities, strict=True):
            there = st.sampled_from(sorted(self.depends_on) or [""])
            after = data.draw(st.lists(there, unique=True, max_size=2)) if self.depends_on else []
            assert self.may(self.bus.add(name, priority=priority, after=after)) is None
            self.depends_on[name] = after
        for name in ("v", "w"):
            assert self.may(self.bus.register(name)) is None
        for name in data.draw(st.permutations(TASKS))[:4]:
            assert self.may(self.bus.submit(name)) is None

    # -- workers

    @rule(name=WORKERS)
    def register(self, name: str) -> None:
        assert self.may(self.bus.register(name)) is None

    @rule(name=WORKERS)
    def poll(self, name: str) -> None:
        offers = self.not_received()
        self.may(self.bus.look(name))
        holder = self.rows.workers.get(name)
        if holder is not None and holder.task_id is None and offers:
            # Only a worker that gave the task away does not take it over.
            assert any(
                has_left_checkpoint(self.rows.tasks[offer.task_id], name) for offer in offers
            )

    def not_received(self) -> list[Assignment]:
        return [
            held
            for held in self.rows.assignments.values()
            if held.state is WorkerState.ASSIGNED and not held.received
        ]

    @precondition(lambda self: self.in_state(WorkerState.ASSIGNED))
    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        """Twice as likely as the other rules: without work nothing happens."""
        self.take_what_is_offered(data)

    @precondition(lambda self: self.in_state(WorkerState.ASSIGNED))
    @rule(data=st.data())
    def take_what_is_offered(self, data: st.DataObject) -> None:
        worker, task = data.draw(st.sampled_from(self.in_state(WorkerState.ASSIGNED)))
        assert self.may(self.bus.ack(worker, task)) is None

    @rule(name=WORKERS, task=TASK_NAMES)
    def acknowledge_anything(self, name: str, task: str) -> None:
        offered = (name, task) in self.in_state(WorkerState.ASSIGNED)
        assert (self.may(self.bus.ack(name, task)) is None) == offered

    @precondition(lambda self: self.in_state(*AT_WORK))
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        worker, task = data.draw(st.sampled_from(self.in_state(*AT_WORK)))
        epoch = self.rows.assignments[task].epoch
        assert self.may(self.bus.done(task, worker, epoch)) is None
        assert isinstance(self.may(self.bus.done(task, worker, epoch)), NotHeld)

    @rule(task=TASK_NAMES, name=st.none() | WORKERS)
    def report_done_of_anything(self, task: str, name: str | None) -> None:
        holders = [worker for worker, held in self.in_state(*AT_WORK) if held == task]
        refused = self.may(self.bus.done(task, name))
        assert (refused is None) == (name in holders or (name is None and bool(holders)))

    @precondition(lambda self: self.in_state(*AT_WORK))
    @rule(data=st.data())
    def report_failed(self, data: st.DataObject) -> None:
        _, task = data.draw(st.sampled_from(self.in_state(*AT_WORK)))
        assert self.may(self.bus.failed(task)) is None

    @rule(name=WORKERS, seconds=st.none() | st.integers(5, 100))
    def beat(self, name: str, seconds: int | None) -> None:
        self.may(self.bus.beat(name, lease_seconds=seconds))

    @precondition(lambda self: self.over())
    @rule(data=st.data(), named=st.booleans())
    def report_from_the_past(self, data: st.DataObject, named: bool) -> None:
        worker, task, epoch = data.draw(st.sampled_from(self.over()))
        refused = self.may(self.bus.done(task, worker if named else None, epoch))
        assert isinstance(refused, StaleEpoch | NotHeld)

    def over(self) -> list[tuple[str, str, int]]:
        """The attempts that have ended."""
        live = {
            (assignment.worker, assignment.task_id, assignment.epoch)
            for assignment in self.rows.assignments.values()
        }
        return sorted(self.attempts - live)

    # -- messages of workers that hold something, in any state

    def a_holder(self, data: st.DataObject) -> tuple[str, str]:
        held = [(name, one.task_id) for name, one in self.rows.workers.items() if one.task_id]
        return data.draw(st.sampled_from(held))

    def somebody_holds(self) -> bool:
        return any(worker.task_id for worker in self.rows.workers.values())

    @precondition(somebody_holds)
    @rule(data=st.data(), state=st.none() | st.sampled_from(WorkerState))
    def progress(self, data: st.DataObject, state: WorkerState | None) -> None:
        payload = {"commit": "abc1234"} | ({} if state is None else {"state": state.value})
        self.may(self.bus.say(MessageType.PROGRESS, self.a_holder(data)[0], payload=payload))

    @precondition(somebody_holds)
    @rule(data=st.data())
    def complete(self, data: st.DataObject) -> None:
        worker, task = self.a_holder(data)
        self.may(
            self.bus.say(
                MessageType.COMPLETE,
                worker,
                task_id=task,
                files_created=[],
                files_modified=[],
                verification_passed=True,
                verification_output="",
            )
        )

    @precondition(somebody_holds)
    @rule(data=st.data(), recoverable=st.booleans())
    def fail(self, data: st.DataObject, recoverable: bool) -> None:
        worker, task = self.a_holder(data)
        self.may(
            self.bus.say(
                MessageType.FAILED,
                worker,
                task_id=task,
                error="boom",
                recoverable=recoverable,
                checkpoint_path=None,
            )
        )

    @precondition(somebody_holds)
    @rule(data=st.data())
    def block(self, data: st.DataObject) -> None:
        question = {"question": "which?"}
        self.may(self.bus.say(MessageType.BLOCKED, self.a_holder(data)[0], payload=question))

    @precondition(lambda self: self.in_state(WorkerState.BLOCKED))
    @rule()
    def answer_the_oldest_question(self) -> None:
        request = ListQuestionsRequest(swarm_id=self.bus.swarm_id)
        questions = self.run(self.bus.bus_service.list_questions(request)).questions
        answer = AnswerQuestionRequest(
            swarm_id=self.bus.swarm_id, question_id=questions[0].question_id, answer="this"
        )
        assert self.may(awaited(self.bus.bus_service.answer_question(answer))) is None

    @precondition(somebody_holds)
    @rule(data=st.data())
    def hand_over(self, data: st.DataObject) -> None:
        step = {"current_step": 1}
        self.may(self.bus.say(MessageType.CONTEXT_THRESHOLD, self.a_holder(data)[0], payload=step))

    # -- the orchestrator, and time

    @rule(name=WORKERS, task=TASK_NAMES)
    def assign(self, name: str, task: str) -> None:
        self.may(
            self.bus.say(
                MessageType.ASSIGN,
                name,
                task_id=task,
                spec_path="",
                worktree_path="/w",
                timeout_seconds=60,
            )
        )

    @rule(task=TASK_NAMES)
    def submit(self, task: str) -> None:
        self.may(self.bus.submit(task))

    @rule(task=TASK_NAMES)
    def retry(self, task: str) -> None:
        self.may(self.bus.retry(task))

    # Only a few: once everything is cancelled, nothing else can happen.
    @precondition(lambda self: self.statuses().count("cancelled") < 2)
    @rule(task=TASK_NAMES)
    def cancel(self, task: str) -> None:
        self.may(self.bus.cancel(task))

    @rule(name=WORKERS)
    def reset(self, name: str) -> None:
        self.may(self.bus.reset(name))

    @rule(seconds=st.sampled_from([1, 30, 61, 1801, 90_000]))
    def let_time_pass(self, seconds: int) -> None:
        assert self.may(self.bus.pass_seconds(seconds)) is None

    # -- invariants

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        ready = [task for task in self.rows.tasks.values() if is_ready(task)]
        free = [
            worker
            for worker in self.rows.workers.values()
            if worker.available and not worker.task_id
        ]
        assert not (ready and free)

    @invariant()
    def the_counters_are_right(self) -> None:
        for priority, count in self.rows.ready.items():
            ready = [
                task
                for task in self.rows.tasks.values()
                if is_ready(task) and task.priority == priority
            ]
            assert count == len(ready)

    @invariant()
    def tasks_wait_for_what_is_not_done(self) -> None:
        for name, after in self.depends_on.items():
            unfinished = [one for one in after if self.rows.tasks[one].status != "done"]
            assert self.rows.tasks[name].waits_for == len(unfinished)
            assert not (unfinished and self.rows.tasks[name].status in ("active", "done"))

    @invariant()
    def workers_and_assignments_agree(self) -> None:
        for worker in self.rows.workers.values():
            if worker.task_id is not None:
                assert self.rows.assignments[worker.task_id].worker == worker.name
        for name, held in self.rows.assignments.items():
            task = self.rows.tasks[name]
            waiting = held.state is WorkerState.WAITING
            assert held.epoch == task.epoch
            assert held.worker == task.worker
            assert task.status == ("queued" if waiting else "active")
            assert (held.lease_expires_at_ms is None) == waiting
            if not waiting:
                assert self.rows.workers[held.worker].task_id == name
        active = [name for name, one in self.rows.tasks.items() if one.status == "active"]
        assert set(active) <= set(self.rows.assignments)

    @invariant()
    def what_the_writer_remembers_is_what_is_stored(self) -> None:
        store = self.bus.coordinator.store
        if not isinstance(store, SqliteStore):
            return
        cache, swarm_id = store._row_cache, self.bus.swarm_id
        assert cache is not None
        for kept, stored in (
            (cache.tasks, self.rows.tasks),
            (cache.workers, self.rows.workers),
            (cache.assignments, self.rows.assignments),
        ):
            for (kept_swarm, name), row in kept._rows.items():
                if kept_swarm == swarm_id:
                    assert row == stored.get(name)
        for kept_swarm, name in cache.without_dependents._rows:
            if kept_swarm == swarm_id:
                assert not any(name in after for after in self.depends_on.values())
        if swarm_id in cache.without_ready:
            assert not any(is_ready(task) for task in self.rows.tasks.values())
        if swarm_id in cache.without_offers:
            assert not self.not_received()

    @invariant()
    def who_is_free_for_certain_is_free(self) -> None:
        for swarm_id, name in self.bus.coordinator.bus.waiting_polls._free_workers._free:
            if swarm_id == self.bus.swarm_id:
                worker = self.rows.workers[name]
                assert worker.available
                assert worker.task_id is None

    @invariant()
    def the_invariants_of_every_store_hold(self) -> None:
        """The same ones that the simulator and `shiftboss fsck` check, and the fold."""
        assert self.run(self.bus.coordinator.store.read(self.broken_invariants)) == []

    def broken_invariants(self, tx: Transaction) -> list[BrokenInvariant]:
        facts = read_swarm(tx, self.bus.swarm_id)
        if facts is None:
            return []
        folded = fold_swarm(tx, self.bus.swarm_id)
        # The other swarms of the store belong to other examples.
        store = StoreFacts([], [], tx.repo_locks(), tx.all_reservations())
        return [*check_swarm(facts, store), *state_equals_fold(facts, folded)]

    # -- the end

    def teardown(self) -> None:
        self.run(self.finish_everything())
        assert self.run(self.bus.coordinator.store.read(self.broken_invariants)) == []
        events = self.run(self.bus.coordinator.swarms.events_after(self.bus.swarm_id, 0, 100_000))
        assert [event.event_id for event in events] == list(range(1, len(events) + 1))
        rows = self.run(self.bus.rows())
        for name in self.depends_on:
            told = [e for e in events if e.kind == "task_done" and f'"bead_id":"{name}"' in e.data]
            assert len(told) == (rows.tasks[name].status == "done"), name
            assert rows.tasks[name].status in ("done", "cancelled"), name

    async def finish_everything(self) -> None:
        """All other workers go silent. Dependents of a cancelled task are cancelled, too."""
        await self.bus.register("last")
        for name, after in self.depends_on.items():
            task = await self.bus.show(name)
            lost = [one for one in after if (await self.bus.show(one)).status == "cancelled"]
            if lost and task.status not in ("done", "cancelled"):
                await self.bus.cancel(name)
            elif task.status in ("open", "failed"):
                await self.bus.submit(name)
        for _ in range(4 * len(TASKS)):
            await self.bus.pass_seconds(90_000)
            task_given = (await self.bus.look("last")).task
            if task_given is not None:
                await self.bus.ack("last", task_given.bead_id)
                await self.bus.done(task_given.bead_id, "last", task_given.epoch)


async def awaited(step: Awaitable[T]) -> T:
    return await step


def is_ready(task: Any) -> bool:
    return bool(task.status == "queued" and task.waits_for == 0)


@pytest.mark.requirement("BUS-04", "BUS-08", "BUS-09")
@pytest.mark.seconds
def test_no_task_is_ever_lost_or_held_twice(store_address: str) -> None:
    numbers = itertools.count(1)
    with asyncio.Runner() as runner:
        coordinator = Coordinator(store_at(store_address), clock=StillClock())
        runner.run(coordinator.start())
        try:
            run_state_machine_as_test(
                lambda: Bus(runner, coordinator, f"swarm-{next(numbers)}"),  # type: ignore[arg-type]
                settings=settings(
                    max_examples=EXAMPLES[coordinator.store.name],
                    stateful_step_count=40,
                    deadline=None,
                    suppress_health_check=list(HealthCheck),
                ),
            )
        finally:
            runner.run(coordinator.stop())
