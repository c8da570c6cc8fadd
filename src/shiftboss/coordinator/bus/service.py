"""The operations of the bus: each call is one use case; a poll may wait."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from pydantic_core import to_json

from shiftboss.coordinator.bus import add_tasks, messages, questions, task_reasons, tasks, workers
from shiftboss.coordinator.bus.task_source import FindTask, import_requests
from shiftboss.coordinator.bus.waiting_polls import WaitingPolls, poll_end
from shiftboss.coordinator.claims.verdict_waiters import VerdictWaiters
from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.deployment.admission import Admissions
from shiftboss.coordinator.event_hub import Hub
from shiftboss.coordinator.handoffs.refusals import note_refusal
from shiftboss.coordinator.idempotency import write_once
from shiftboss.errors import (
    OwnershipOverlap,
    RepoBlocked,
    UnknownTask,
)
from shiftboss.protocol.bus import (
    AckAnswer,
    AckRequest,
    AddTaskAnswer,
    AddTaskRequest,
    AddTasksAnswer,
    AddTasksRequest,
    BusRequest,
    BusStatus,
    CancelTaskRequest,
    DoneAnswer,
    DoneRequest,
    FailedAnswer,
    FindTaskRequest,
    HeartbeatAnswer,
    HeartbeatRequest,
    ListTasksRequest,
    PollAnswer,
    PollRequest,
    RegisterWorkerAnswer,
    RegisterWorkerRequest,
    ResetAnswer,
    ResetWorkerRequest,
    ReturnTaskRequest,
    StatusRequest,
    SubmitAnswer,
    SwarmsOfTask,
    TaskEndAnswer,
    TaskFailedRequest,
    TaskList,
    TaskRequest,
    TaskView,
    WhyAnswer,
)
from shiftboss.protocol.handoff_requests import WAIT_MS_DEFAULT
from shiftboss.protocol.messages import Message, message_from_json
from shiftboss.protocol.questions import (
    AnswerQuestionRequest,
    ListQuestionsRequest,
    MessageAnswer,
    MessageRequest,
    QuestionList,
    QuestionView,
)
from shiftboss.rules.claims.claims import Claim
from shiftboss.rules.tasks.retry import RetryPolicy
from shiftboss.store.current_actor import CURRENT_ACTOR
from shiftboss.store.port import Store

T = TypeVar("T")


class BusService:
    """Every writing call takes an optional idempotency key; those that need none ignore it."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        hub: Hub,
        on_lease: Callable[[int | None], None],
        verdict_waiters: VerdictWaiters,
        retry_policy: RetryPolicy,
        admissions: Admissions,
        find_task: FindTask | None = None,
        *,
        everybody_reopens: bool = True,
        on_step: Callable[[str, str], None] | None = None,
    ) -> None:
        """`on_lease` gets the end of every renewed lease. `everybody_reopens`: not only the
        operator may bring a cancelled task back. `on_step` gets the swarm and the task of a
        heartbeat that tells more than that its worker lives."""
        self._store = store
        self._clock = clock
        self._hub = hub
        self._on_lease = on_lease
        self._verdict_waiters = verdict_waiters
        self._retry_policy = retry_policy
        self._find_task = find_task
        self._everybody_reopens = everybody_reopens
        self._on_step = on_step
        self.waiting_polls = WaitingPolls(store, clock, hub, admissions)

    # -- workers

    def register_worker(
        self, request: RegisterWorkerRequest, key: str | None = None
    ) -> Awaitable[RegisterWorkerAnswer]:
        return write_once(self._store, self._clock, workers.register_worker, request, key)

    def poll_task(
        self, request: PollRequest, key: str | None = None
    ) -> Coroutine[Any, Any, PollAnswer]:
        return self.waiting_polls.poll(request, key)

    def ack_task(self, request: AckRequest, key: str | None = None) -> Awaitable[AckAnswer]:
        return self._write(workers.ack, request, key)

    async def worker_done(self, request: DoneRequest, key: str | None = None) -> DoneAnswer:
        """A task with a handoff is done when its claim is accepted, which may take a while."""
        if request.poll:
            return await self._done_and_poll(request, key)
        outcome = await self._write(workers.done, request, key)
        return await self._await_verdict(outcome) if isinstance(outcome, Claim) else outcome

    async def _done_and_poll(self, request: DoneRequest, key: str | None) -> DoneAnswer:
        ends_at = poll_end(request.timeout_ms)
        outcome: DoneAnswer | Claim = await self.waiting_polls.after_report(
            workers.done_and_poll, request, key, ends_at
        )
        if not isinstance(outcome, Claim):
            return outcome
        answer = await self._await_verdict(outcome)
        if not answer.success:
            return answer
        return await self.waiting_polls.with_next(answer, request, key, ends_at)

    async def _await_verdict(self, claim: Claim) -> DoneAnswer:
        outcome = await self._verdict_waiters.outcome(claim, WAIT_MS_DEFAULT)
        return DoneAnswer(
            success=outcome.success,
            bead_id=claim.task_id,
            status=outcome.status,
            receipt_id=outcome.receipt_id,
            hint=outcome.hint,
        )

    def task_failed(
        self, request: TaskFailedRequest, key: str | None = None
    ) -> Awaitable[FailedAnswer]:
        if not request.poll:
            return self._write(workers.failed, request, key)
        ends_at = poll_end(request.timeout_ms)
        return self.waiting_polls.after_report(workers.failed_and_poll, request, key, ends_at)

    def return_task(
        self, request: ReturnTaskRequest, key: str | None = None
    ) -> Awaitable[TaskEndAnswer]:
        return write_once(self._store, self._clock, workers.return_task, request, key)

    async def heartbeat(
        self, request: HeartbeatRequest, _key: str | None = None
    ) -> HeartbeatAnswer:
        answer = await self._write(workers.heartbeat, request)
        self._on_lease(answer.lease_expires_at)
        says_more = request.current_step is not None or request.context_usage is not None
        if says_more and answer.bead_id is not None and self._on_step is not None:
            self._on_step(request.swarm_id, answer.bead_id)
        return answer

    def reset_worker(
        self, request: ResetWorkerRequest, key: str | None = None
    ) -> Awaitable[ResetAnswer]:
        return write_once(self._store, self._clock, workers.reset_worker, request, key)

    async def get_status(self, request: StatusRequest, _key: str | None = None) -> BusStatus:
        now_ms = self._clock()
        polling = self._hub.polling(request.swarm_id)
        return await self._store.read(lambda tx: workers.status(tx, request, polling, now_ms))

    async def send_message(self, request: MessageRequest, key: str | None = None) -> MessageAnswer:
        message = message_from_json(to_json(request.message))
        return await self.receive(message, request.swarm_id, key)

    async def receive(
        self, message: Message, swarm_id: str, key: str | None = None
    ) -> MessageAnswer:
        now_ms = self._clock()
        answer = await self._store.write(
            lambda tx: messages.receive(tx, message, swarm_id, key, self._retry_policy, now_ms),
            swarm_id,
        )
        self._on_lease(answer.lease_expires_at)
        return answer

    # -- tasks

    def add_task(self, request: AddTaskRequest, key: str | None = None) -> Awaitable[AddTaskAnswer]:
        if request.submit:
            return self._add_and_submit(request, key)
        return write_once(self._store, self._clock, add_tasks.add, request, key)

    async def _add_and_submit(self, request: AddTaskRequest, key: str | None) -> AddTaskAnswer:
        try:
            return await write_once(self._store, self._clock, add_tasks.add, request, key)
        except (OwnershipOverlap, RepoBlocked) as error:
            await self._note_refusal(request, error)
            raise

    def add_tasks(
        self, request: AddTasksRequest, key: str | None = None
    ) -> Awaitable[AddTasksAnswer]:
        return write_once(self._store, self._clock, add_tasks.add_all, request, key)

    async def submit_task(self, request: TaskRequest, key: str | None = None) -> SubmitAnswer:
        try:
            if self._find_task is None:
                return await write_once(self._store, self._clock, tasks.submit, request, key)
            return await self._submit_with_tracker(request, key, self._find_task)
        except (OwnershipOverlap, RepoBlocked) as error:
            await self._note_refusal(request, error)
            raise

    def _note_refusal(
        self, request: TaskRequest | AddTaskRequest, error: OwnershipOverlap | RepoBlocked
    ) -> Awaitable[None]:
        now_ms = self._clock()
        return self._store.write(
            lambda tx: note_refusal(tx, request.swarm_id, request.bead_id, error, now_ms),
            request.swarm_id,
        )

    async def _submit_with_tracker(
        self, request: TaskRequest, key: str | None, find_task: FindTask
    ) -> SubmitAnswer:
        """Submit a task; import it from the tracker if the store does not know it."""
        try:
            return await write_once(self._store, self._clock, tasks.submit, request, key)
        except UnknownTask:
            for task in await import_requests(self._store, find_task, request):
                await self.add_task(task)
        return await write_once(self._store, self._clock, tasks.submit, request, key)

    def retry_task(self, request: TaskRequest, key: str | None = None) -> Awaitable[TaskEndAnswer]:
        """A token that allows to steer allows this, where it is not open to all."""
        may_reopen = self._everybody_reopens or CURRENT_ACTOR.get().is_named
        use_case = tasks.retry if may_reopen else tasks.retry_unless_cancelled
        return write_once(self._store, self._clock, use_case, request, key)

    def retry_any_task(
        self, request: TaskRequest, key: str | None = None
    ) -> Awaitable[TaskEndAnswer]:
        """For the operator: also a cancelled task, wherever that is not open to all."""
        return write_once(self._store, self._clock, tasks.retry, request, key)

    def cancel_task(
        self, request: CancelTaskRequest, key: str | None = None
    ) -> Awaitable[TaskEndAnswer]:
        return write_once(self._store, self._clock, tasks.cancel, request, key)

    async def show_task(self, request: TaskRequest, _key: str | None = None) -> TaskView:
        return await self._store.read(lambda tx: tasks.show(tx, request.swarm_id, request.bead_id))

    async def find_task(self, request: FindTaskRequest, _key: str | None = None) -> SwarmsOfTask:
        actor = CURRENT_ACTOR.get()
        places = await self._store.read(lambda tx: tasks.find(tx, request.bead_id))
        return places.model_copy(
            update={"swarms": [place for place in places.swarms if actor.sees(place.swarm_id)]}
        )

    async def why_task(self, request: TaskRequest, _key: str | None = None) -> WhyAnswer:
        polling = self._hub.polling(request.swarm_id)
        now_ms = self._clock()
        return await self._store.read(lambda tx: task_reasons.why(tx, request, polling, now_ms))

    async def list_tasks(self, request: ListTasksRequest, _key: str | None = None) -> TaskList:
        return await self._store.read(
            lambda tx: tasks.listing(tx, request.swarm_id, request.after, request.limit)
        )

    # -- questions

    async def list_questions(
        self, request: ListQuestionsRequest, _key: str | None = None
    ) -> QuestionList:
        return await self._store.read(
            lambda tx: questions.listing(tx, request.swarm_id, only_open=request.only_open)
        )

    def answer_question(
        self, request: AnswerQuestionRequest, key: str | None = None
    ) -> Awaitable[QuestionView]:
        return write_once(self._store, self._clock, questions.answer, request, key)

    def _write(
        self, use_case: Callable[..., T], request: BusRequest, *arguments: object
    ) -> Awaitable[T]:
        """Run a writing use case `(tx, request, *arguments, now_ms)`."""
        now_ms = self._clock()
        return self._store.write(
            lambda tx: use_case(tx, request, *arguments, now_ms), request.swarm_id
        )
