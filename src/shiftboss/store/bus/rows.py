"""The rows of the bus: tasks, queue, workers, questions, stored answers."""

from __future__ import annotations

import json

from shiftboss.protocol.states import WorkerState
from shiftboss.rules.tasks.tasks import Question, Salvage, Task, Worker
from shiftboss.store.transaction_part import Row, TransactionPart

SALVAGE_PER_TASK_MAX = 5
QUEUE_POSITION_MAX = 10_000
# The answer of a question whose attempt has ended.
WITHDRAWN = "(withdrawn: the attempt has ended)"


class BusRows(TransactionPart):
    """Implements `shiftboss.store.port.BusTransaction`."""

    def task(self, swarm_id: str, task_id: str) -> Task | None:
        return _task(self._session.fetch_one("task", {"swarm_id": swarm_id, "task_id": task_id}))

    def swarms_of_task(self, task_id: str, limit: int) -> list[tuple[str, str]]:
        rows = self._session.fetch_all("swarms_of_task", {"task_id": task_id, "limit": limit})
        return [(swarm_id, status) for swarm_id, status in rows]

    def task_counts(self, swarm_id: str) -> dict[str, int]:
        rows = self._session.fetch_all("task_counts", {"swarm_id": swarm_id})
        return {row[0]: row[1] for row in rows}

    def tasks_with_status(self, swarm_id: str, status: str, limit: int) -> list[Task]:
        rows = self._session.fetch_all(
            "tasks_with_status", {"swarm_id": swarm_id, "status": status, "limit": limit}
        )
        return [Task._make(row) for row in rows]

    def waiting_for_cancelled(self, swarm_id: str, limit: int) -> list[tuple[str, str]]:
        rows = self._session.fetch_all(
            "waiting_for_cancelled", {"swarm_id": swarm_id, "limit": limit}
        )
        return [(task_id, dependency_id) for task_id, dependency_id in rows]

    def waiting_for_cancelled_count(self, swarm_id: str) -> int:
        row = self._session.fetch_one("waiting_for_cancelled_count", {"swarm_id": swarm_id})
        return 0 if row is None else int(row[0])

    def tasks_after(self, swarm_id: str, task_id: str, limit: int) -> list[Task]:
        rows = self._session.fetch_all(
            "tasks_after", {"swarm_id": swarm_id, "task_id": task_id, "limit": limit}
        )
        return [Task._make(row) for row in rows]

    def next_task(self, swarm_id: str) -> Task | None:
        return _task(self._session.fetch_one("next_task", {"swarm_id": swarm_id}))

    def add_task(self, task: Task, depends_on: list[str]) -> None:
        self._write("add_task", task._asdict())
        for dependency in depends_on:
            self._write(
                "add_dependency",
                {"swarm_id": task.swarm_id, "task_id": task.task_id, "depends_on": dependency},
            )

    def save_task(self, task: Task) -> None:
        self._write("save_task", task._asdict())

    def dependencies(self, swarm_id: str, task_id: str) -> list[str]:
        return self._ids("dependencies", swarm_id, task_id)

    def unfinished_dependencies(self, swarm_id: str, task_id: str) -> list[str]:
        return self._ids("unfinished_dependencies", swarm_id, task_id)

    def dependents(self, swarm_id: str, task_id: str) -> list[Task]:
        rows = self._session.fetch_all("dependents", {"swarm_id": swarm_id, "task_id": task_id})
        return [Task._make(row) for row in rows]

    def next_queue_number(self, swarm_id: str, priority: int) -> int:
        self.wrote = True
        row = self._session.fetch_one(
            "next_queue_number", {"swarm_id": swarm_id, "priority": priority}
        )
        assert row is not None, "INSERT ... RETURNING gives a row"
        return int(row[0])

    def change_ready(self, swarm_id: str, priority: int, change: int) -> None:
        self._write("change_ready", {"swarm_id": swarm_id, "priority": priority, "change": change})

    def ready_at_or_above(self, swarm_id: str, priority: int) -> int:
        row = self._session.fetch_one(
            "ready_at_or_above", {"swarm_id": swarm_id, "priority": priority}
        )
        return int(row[0]) if row else 0

    def queue_position(self, task: Task) -> int:
        row = self._session.fetch_one(
            "queue_position",
            {
                "swarm_id": task.swarm_id,
                "priority": task.priority,
                "queue_number": task.queue_number,
                "task_id": task.task_id,
                "limit": QUEUE_POSITION_MAX,
            },
        )
        return int(row[0]) if row else 0

    def worker(self, swarm_id: str, name: str) -> Worker | None:
        return _worker(self._session.fetch_one("worker", {"swarm_id": swarm_id, "name": name}))

    def next_worker(self, swarm_id: str) -> Worker | None:
        parameters = {"swarm_id": swarm_id, "limit": 1}
        return _worker(self._session.fetch_one("free_workers", parameters))

    def free_workers(self, swarm_id: str, limit: int) -> list[Worker]:
        parameters = {"swarm_id": swarm_id, "limit": limit}
        return [_make_worker(row) for row in self._session.fetch_all("free_workers", parameters)]

    def put_worker(self, worker: Worker) -> None:
        self._write("put_worker", worker._asdict())

    def workers(self, swarm_id: str) -> list[tuple[Worker, WorkerState | None]]:
        rows = self._session.fetch_all("workers_with_states", {"swarm_id": swarm_id})
        return [(_make_worker(row[:6]), WorkerState(row[6]) if row[6] else None) for row in rows]

    def busy_workers(self, swarm_id: str) -> list[str]:
        return [row[0] for row in self._session.fetch_all("busy_workers", {"swarm_id": swarm_id})]

    def end_assignment(self, swarm_id: str, task_id: str, epoch: int) -> bool:
        parameters = {"swarm_id": swarm_id, "task_id": task_id, "epoch": epoch}
        return self._write_one("end_assignment", parameters)

    def expired_leases(self, now_ms: int, limit: int) -> list[tuple[str, str, int]]:
        rows = self._session.fetch_all("expired_leases", {"now_ms": now_ms, "limit": limit})
        return [(row[0], row[1], row[2]) for row in rows]

    def renew_expired_leases(self, now_ms: int, grace_seconds: int) -> int:
        return self._change(
            "renew_expired_leases", {"now_ms": now_ms, "grace_seconds": grace_seconds}
        )

    def next_lease_end_at_ms(self) -> int | None:
        row = self._session.fetch_one("next_lease_end_at_ms", {})
        return None if row is None else row[0]

    def add_question(self, question: Question) -> int:
        self.wrote = True
        row = self._session.fetch_one("add_question", {**question._asdict(), "heard": False})
        assert row is not None, "INSERT ... RETURNING gives a row"
        return int(row[0])

    def question(self, swarm_id: str, question_id: int) -> Question | None:
        row = self._session.fetch_one(
            "question", {"swarm_id": swarm_id, "question_id": question_id}
        )
        return None if row is None else Question._make(row)

    def questions(self, swarm_id: str, limit: int, *, only_open: bool) -> list[Question]:
        query = "open_questions" if only_open else "newest_questions"
        rows = self._session.fetch_all(query, {"swarm_id": swarm_id, "limit": limit})
        return [Question._make(row) for row in rows]

    def open_questions_of_task(self, swarm_id: str, task_id: str, limit: int) -> list[Question]:
        rows = self._session.fetch_all(
            "open_questions_of_task", {"swarm_id": swarm_id, "task_id": task_id, "limit": limit}
        )
        return [Question._make(row) for row in rows]

    def answered_disputes(
        self, swarm_id: str, task_id: str, epoch: int, limit: int
    ) -> list[Question]:
        rows = self._session.fetch_all(
            "answered_disputes",
            {"swarm_id": swarm_id, "task_id": task_id, "epoch": epoch, "limit": limit},
        )
        return [Question._make(row) for row in rows]

    def answer_question(
        self, swarm_id: str, question_id: int, answer: str, answered_at_ms: int
    ) -> bool:
        parameters = {
            "swarm_id": swarm_id,
            "question_id": question_id,
            "answer": answer,
            "answered_at_ms": answered_at_ms,
        }
        return self._change("answer_question", parameters) == 1

    def readdress_question(self, swarm_id: str, question_id: int, epoch: int) -> None:
        self._write(
            "readdress_question",
            {"swarm_id": swarm_id, "question_id": question_id, "epoch": epoch},
        )

    def withdraw_questions(
        self, swarm_id: str, task_id: str, epoch: int, answered_at_ms: int
    ) -> int:
        return self._change(
            "withdraw_questions",
            {
                "swarm_id": swarm_id,
                "task_id": task_id,
                "epoch": epoch,
                "answer": WITHDRAWN,
                "answered_at_ms": answered_at_ms,
                "heard": True,
            },
        )

    def has_unfinished_tasks(self, swarm_id: str) -> bool:
        return self._session.fetch_one("has_unfinished_tasks", {"swarm_id": swarm_id}) is not None

    def undelivered_answers(self, swarm_id: str, task_id: str, epoch: int) -> list[Question]:
        rows = self._session.fetch_all(
            "undelivered_answers", {"swarm_id": swarm_id, "task_id": task_id, "epoch": epoch}
        )
        return sorted(Question._make(row) for row in rows)

    def mark_answers_delivered(self, swarm_id: str, task_id: str, epoch: int) -> None:
        self._write(
            "mark_answers_delivered", {"swarm_id": swarm_id, "task_id": task_id, "epoch": epoch}
        )

    def add_salvage(self, swarm_id: str, task_id: str, salvage: Salvage, at_ms: int) -> None:
        self._write(
            "add_salvage",
            {
                **salvage._asdict(),
                "commits": json.dumps(salvage.commits),
                "swarm_id": swarm_id,
                "task_id": task_id,
                "at_ms": at_ms,
            },
        )

    def salvage(self, swarm_id: str, task_id: str) -> list[Salvage]:
        rows = self._session.fetch_all(
            "salvage_of_task",
            {"swarm_id": swarm_id, "task_id": task_id, "limit": SALVAGE_PER_TASK_MAX},
        )
        return [Salvage(row[0], row[1], row[2], json.loads(row[3])) for row in rows]

    def first_answer(self, swarm_id: str, report_key: bytes) -> tuple[bytes, str] | None:
        row = self._session.fetch_one(
            "first_answer", {"swarm_id": swarm_id, "report_key": report_key}
        )
        return None if row is None else (bytes(row[0]), row[1])

    def add_answer(
        self, swarm_id: str, report_key: bytes, request_digest: bytes, answer: str, at_ms: int
    ) -> None:
        self._write(
            "add_answer",
            {
                "swarm_id": swarm_id,
                "report_key": report_key,
                "words": request_digest,
                "answer": answer,
                "at_ms": at_ms,
            },
        )

    def forget_answers(self, before_ms: int, limit: int) -> int:
        return self._change("forget_answers", {"at_ms": before_ms, "limit": limit})

    def _ids(self, query: str, swarm_id: str, task_id: str) -> list[str]:
        rows = self._session.fetch_all(query, {"swarm_id": swarm_id, "task_id": task_id})
        return [row[0] for row in rows]


def _task(row: Row | None) -> Task | None:
    return None if row is None else Task._make(row)


def _worker(row: Row | None) -> Worker | None:
    return None if row is None else _make_worker(row)


def taken_worker(swarm_id: str, row: Row) -> Worker | None:
    """The worker in the columns of a join; None where they are NULL."""
    return None if row[0] is None else _make_worker((swarm_id, *row))


def _make_worker(row: Row) -> Worker:
    swarm_id, name, task_id, available, registered_at_ms, last_activity_at_ms = row
    return Worker(swarm_id, name, task_id, bool(available), registered_at_ms, last_activity_at_ms)
