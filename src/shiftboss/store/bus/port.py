"""Tasks, workers, queues, leases and questions in a transaction. Implemented by `rows.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from shiftboss.protocol.states import WorkerState
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.tasks import Question, Salvage, Task, Worker


class TakenTask(NamedTuple):
    """A task, its current attempt and the worker of the attempt. Each may be None."""

    task: Task | None
    assignment: Assignment | None
    worker: Worker | None


class TakenWorker(NamedTuple):
    """A worker and its current attempt. Each may be None. `may_have_offers`: whether it is worth
    asking for the `next_offer` of the swarm."""

    worker: Worker | None
    assignment: Assignment | None
    may_have_offers: bool = True


class BusTransaction(Protocol):
    """Tasks, their queue, workers and questions. Take the swarm before changing any of them."""

    def take_task(self, swarm_id: str, task_id: str) -> TakenTask | None:
        """Takes the swarm, too; None if there is no such swarm."""
        ...

    def take_worker(self, swarm_id: str, name: str) -> TakenWorker | None:
        """Takes the swarm, too; None if there is no such swarm."""
        ...

    def task(self, swarm_id: str, task_id: str) -> Task | None: ...

    def swarms_of_task(self, task_id: str, limit: int) -> list[tuple[str, str]]:
        """(swarm_id, status) of every task of this id, by swarm."""
        ...

    def task_counts(self, swarm_id: str) -> Mapping[str, int]:
        """How many tasks have which status."""
        ...

    def tasks_with_status(self, swarm_id: str, status: str, limit: int) -> list[Task]:
        """In the order of their ids."""
        ...

    def waiting_for_cancelled(self, swarm_id: str, limit: int) -> list[tuple[str, str]]:
        """Open tasks that depend on a cancelled one: the id of the task, and of the other one."""
        ...

    def waiting_for_cancelled_count(self, swarm_id: str) -> int:
        """How many pairs `waiting_for_cancelled` has without a limit."""
        ...

    def tasks_after(self, swarm_id: str, task_id: str, limit: int) -> list[Task]:
        """In the order of their ids."""
        ...

    def next_task(self, swarm_id: str) -> Task | None:
        """The queued task to hand out next: the oldest of the highest priority whose dependencies
        are done and which is not on hold."""
        ...

    def add_task(self, task: Task, depends_on: list[str]) -> None: ...

    def save_task(self, task: Task) -> None:
        """Save everything but title, description, priority and time of creation."""
        ...

    def dependencies(self, swarm_id: str, task_id: str) -> list[str]: ...

    def unfinished_dependencies(self, swarm_id: str, task_id: str) -> list[str]: ...

    def dependents(self, swarm_id: str, task_id: str) -> list[Task]: ...

    def next_queue_number(self, swarm_id: str, priority: int) -> int: ...

    def change_ready(self, swarm_id: str, priority: int, change: int) -> None:
        """Change the count of ready tasks of a priority."""
        ...

    def ready_at_or_above(self, swarm_id: str, priority: int) -> int: ...

    def queue_position(self, task: Task) -> int:
        """How many tasks are handed out up to this one, inclusive; counts to 10,000 at most."""
        ...

    def worker(self, swarm_id: str, name: str) -> Worker | None: ...

    def next_worker(self, swarm_id: str) -> Worker | None:
        """The least recently used worker that is free and available."""
        ...

    def free_workers(self, swarm_id: str, limit: int) -> list[Worker]:
        """The workers that are free and available, the least recently used first."""
        ...

    def next_offer(self, swarm_id: str, skip: int = 0) -> Assignment | None:
        """The oldest offer that no poll has received and that is not held back since, or the one
        after the `skip` oldest."""
        ...

    def offered_workers(self, limit: int) -> list[tuple[str, str]]:
        """(swarm_id, name) of the workers of offers that no poll has received, in all swarms."""
        ...

    def put_worker(self, worker: Worker) -> None: ...

    def workers(self, swarm_id: str) -> list[tuple[Worker, WorkerState | None]]:
        """All workers by name, with the state of their assignment."""
        ...

    def busy_workers(self, swarm_id: str) -> list[str]:
        """The names of the workers that have a task."""
        ...

    def end_assignment(self, swarm_id: str, task_id: str, epoch: int) -> bool:
        """Delete the attempt. Its history is in the events. False if the attempt is not the current
        one."""
        ...

    def expired_leases(self, now_ms: int, limit: int) -> list[tuple[str, str, int]]:
        """(swarm_id, task_id, epoch), the longest overdue first."""
        ...

    def renew_expired_leases(self, now_ms: int, grace_seconds: int) -> int:
        """Renew every expired lease for its own length, at most `grace_seconds`; how many."""
        ...

    def next_lease_end_at_ms(self) -> int | None: ...

    def add_question(self, question: Question) -> int:
        """Its id."""
        ...

    def question(self, swarm_id: str, question_id: int) -> Question | None: ...

    def questions(self, swarm_id: str, limit: int, *, only_open: bool) -> list[Question]:
        """The open ones, oldest first; or all, newest first."""
        ...

    def open_questions_of_task(self, swarm_id: str, task_id: str, limit: int) -> list[Question]:
        """Oldest first."""
        ...

    def answered_disputes(
        self, swarm_id: str, task_id: str, epoch: int, limit: int
    ) -> list[Question]:
        """Those of one attempt, newest first."""
        ...

    def answer_question(
        self, swarm_id: str, question_id: int, answer: str, answered_at_ms: int
    ) -> bool:
        """False, without a change, if it has an answer."""
        ...

    def readdress_question(self, swarm_id: str, question_id: int, epoch: int) -> None:
        """Its answer goes to a later attempt of the task."""
        ...

    def withdraw_questions(
        self, swarm_id: str, task_id: str, epoch: int, answered_at_ms: int
    ) -> int:
        """Close the open questions of an attempt that has ended, and of those before; how many."""
        ...

    def has_unfinished_tasks(self, swarm_id: str) -> bool: ...

    def undelivered_answers(self, swarm_id: str, task_id: str, epoch: int) -> list[Question]: ...

    def mark_answers_delivered(self, swarm_id: str, task_id: str, epoch: int) -> None: ...

    def add_salvage(self, swarm_id: str, task_id: str, salvage: Salvage, at_ms: int) -> None: ...

    def salvage(self, swarm_id: str, task_id: str) -> list[Salvage]:
        """The newest first, at most five."""
        ...

    def first_answer(self, swarm_id: str, report_key: bytes) -> tuple[bytes, str] | None:
        """The digest of the first request with this key, and its answer."""
        ...

    def add_answer(
        self, swarm_id: str, report_key: bytes, request_digest: bytes, answer: str, at_ms: int
    ) -> None: ...

    def forget_answers(self, before_ms: int, limit: int) -> int:
        """Delete old answers, the oldest first; how many."""
        ...
