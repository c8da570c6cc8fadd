"""A coordinator on a real store, with a clock that only the test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.coordinator.duties.lease_reaper import LeaseReaper
from shiftboss.protocol.bus import (
    AckAnswer,
    AckRequest,
    AddTaskRequest,
    CancelTaskRequest,
    Delivery,
    DoneRequest,
    HeartbeatAnswer,
    HeartbeatRequest,
    PollAnswer,
    PollRequest,
    RegisterWorkerRequest,
    ResetWorkerRequest,
    StatusRequest,
    SubmitAnswer,
    TaskFailedRequest,
    TaskRequest,
    TaskView,
    WorkerInfo,
)
from shiftboss.protocol.messages import MESSAGE_FORMS, MessageType
from shiftboss.protocol.questions import (
    AnswerQuestionRequest,
    ListQuestionsRequest,
    MessageAnswer,
    QuestionView,
)
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.tasks import Task, Worker
from shiftboss.store.open_store import store_at
from tests.conformance.folding import check_fold

SWARM = "default"
START_MS = 1_800_000_000_000


class StillClock:
    def __init__(self) -> None:
        self.now_ms = START_MS

    def __call__(self) -> int:
        return self.now_ms


class Rows(NamedTuple):
    """All rows of the bus at one moment."""

    tasks: dict[str, Task]
    workers: dict[str, Worker]
    assignments: dict[str, Assignment]
    ready: dict[int, int]


class BusFixture:
    """Short names for the operations of the bus. The lease reaper runs when a test asks for it."""

    def __init__(self, coordinator: Coordinator, clock: StillClock, swarm_id: str = SWARM) -> None:
        self.swarm_id = swarm_id
        # A test that writes rows without events sets this: they are not compared then.
        self.writes_rows = False
        self.coordinator = coordinator
        self.bus_service = coordinator.bus
        self.clock = clock
        self._lease_reaper = LeaseReaper(coordinator.store, clock, coordinator.hub)

    async def register(self, *names: str) -> None:
        for name in names:
            await self.bus_service.register_worker(
                RegisterWorkerRequest(swarm_id=self.swarm_id, name=name)
            )
            self.clock.now_ms += 1

    async def add(self, *names: str, priority: int = 0, after: list[str] | None = None) -> None:
        for name in names:
            await self.bus_service.add_task(
                AddTaskRequest(
                    swarm_id=self.swarm_id,
                    bead_id=name,
                    title=name,
                    priority=priority,
                    depends_on=after or [],
                )
            )

    async def submit(self, name: str) -> SubmitAnswer:
        return await self.bus_service.submit_task(TaskRequest(swarm_id=self.swarm_id, bead_id=name))

    async def add_and_submit(self, *names: str, priority: int = 0) -> None:
        for name in names:
            await self.add(name, priority=priority)
            await self.submit(name)

    async def look(self, name: str) -> PollAnswer:
        """A poll that does not wait."""
        return await self.bus_service.poll_task(
            PollRequest(swarm_id=self.swarm_id, name=name, timeout_ms=0)
        )

    async def given(self, name: str) -> Delivery:
        task = (await self.look(name)).task
        assert task is not None, f"{name} was given nothing"
        return task

    async def ack(self, name: str, task: str, epoch: int | None = None) -> AckAnswer:
        return await self.bus_service.ack_task(
            AckRequest(swarm_id=self.swarm_id, name=name, bead_id=task, epoch=epoch)
        )

    async def start(self, name: str, task: str) -> int:
        """The worker takes and acknowledges the task it was offered; returns the epoch."""
        assert (await self.given(name)).bead_id == task
        return (await self.ack(name, task)).epoch

    async def done(self, task: str, name: str | None = None, epoch: int | None = None) -> None:
        await self.bus_service.worker_done(
            DoneRequest(swarm_id=self.swarm_id, bead_id=task, name=name, epoch=epoch)
        )

    async def failed(self, task: str, reason: str = "Build failed") -> None:
        await self.bus_service.task_failed(
            TaskFailedRequest(swarm_id=self.swarm_id, bead_id=task, reason=reason)
        )

    async def beat(self, name: str, **members: Any) -> HeartbeatAnswer:
        return await self.bus_service.heartbeat(
            HeartbeatRequest(swarm_id=self.swarm_id, name=name, **members)
        )

    async def reset(self, name: str) -> None:
        await self.bus_service.reset_worker(
            ResetWorkerRequest(swarm_id=self.swarm_id, worker_name=name)
        )

    async def retry(self, task: str) -> str:
        return (
            await self.bus_service.retry_task(TaskRequest(swarm_id=self.swarm_id, bead_id=task))
        ).status

    async def cancel(self, task: str) -> str:
        return (
            await self.bus_service.cancel_task(
                CancelTaskRequest(swarm_id=self.swarm_id, bead_id=task)
            )
        ).status

    async def say(self, kind: MessageType, worker: str, **members: Any) -> MessageAnswer:
        payload = members.pop("payload", {})
        message = MESSAGE_FORMS[kind](
            type=kind, worker_id=worker, timestamp=datetime.now(UTC), payload=payload, **members
        )
        return await self.bus_service.receive(message, self.swarm_id)

    async def show(self, task: str) -> TaskView:
        return await self.bus_service.show_task(TaskRequest(swarm_id=self.swarm_id, bead_id=task))

    async def open_questions(self) -> list[QuestionView]:
        request = ListQuestionsRequest(swarm_id=self.swarm_id, only_open=True)
        return (await self.bus_service.list_questions(request)).questions

    async def answer(self, question_id: int, text: str) -> None:
        await self.bus_service.answer_question(
            AnswerQuestionRequest(swarm_id=self.swarm_id, question_id=question_id, answer=text)
        )

    async def worker(self, name: str) -> WorkerInfo:
        status = await self.bus_service.get_status(StatusRequest(swarm_id=self.swarm_id))
        (found,) = [worker for worker in status.workers if worker.name == name]
        return found

    async def pass_seconds(self, seconds: float) -> None:
        """Time passes, and the lease reaper does what is due."""
        self.clock.now_ms += round(seconds * 1000)
        await self._lease_reaper.run_once()

    async def kinds(self, task: str) -> list[str]:
        events = await self.coordinator.swarms.events_after(self.swarm_id, 0, 100_000)
        return [event.kind for event in events if f'"bead_id":"{task}"' in event.data]

    async def rows(self) -> Rows:
        def look(tx: Any) -> Rows:
            tasks = {task.task_id: task for task in tx.tasks_after(self.swarm_id, "", 10_000)}
            workers = {one.name: one for one, _ in tx.workers(self.swarm_id)}
            attempts = {
                task_id: held
                for task_id in tasks
                if (held := tx.assignment(self.swarm_id, task_id)) is not None
            }
            # The count of one priority: tasks at or above it minus those above.
            ready = {
                priority: tx.ready_at_or_above(self.swarm_id, priority)
                - tx.ready_at_or_above(self.swarm_id, priority + 1)
                for priority in {task.priority for task in tasks.values()}
            }
            return Rows(tasks, workers, attempts, ready)

        return await self.coordinator.store.read(look)


@asynccontextmanager
async def open_bus(address: str, clock: StillClock | None = None) -> AsyncIterator[BusFixture]:
    clock = clock or StillClock()
    coordinator = Coordinator(store_at(address), clock=clock)
    # On a busy machine the coordinator's own reaper may act between two lines of a test.
    everywhere = coordinator.everywhere.duties
    everywhere[:] = [duty for duty in everywhere if not isinstance(duty, LeaseReaper)]
    await coordinator.start()
    try:
        fixture = BusFixture(coordinator, clock)
        yield fixture
        await check_fold(fixture)
    finally:
        await coordinator.stop()
