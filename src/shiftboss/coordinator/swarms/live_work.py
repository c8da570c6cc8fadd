"""The reasons not to delete a swarm or a task."""

from __future__ import annotations

from shiftboss.coordinator.swarms import overview
from shiftboss.rules.documents.wording import pluralize
from shiftboss.rules.tasks.swarms import WorkerCounts
from shiftboss.rules.tasks.tasks import Task
from shiftboss.store.port import Transaction

# A failed task may be retried, but no worker is on it.
FINISHED = frozenset({"done", "failed", "cancelled"})


def live_work(tx: Transaction, swarm_id: str) -> list[str]:
    """The unfinished work of a swarm, in words; empty if there is none."""
    tasks = overview.task_counts(tx, swarm_id)
    work = overview.work_of(tx, swarm_id, tasks, 0)
    packets = WorkerCounts.from_states(tx.state_counts(swarm_id))
    has_plan = tx.plan_run(swarm_id) is not None
    counts = {
        "unfinished task": tasks.open + tasks.queued + tasks.active,
        "unfinished packet": packets.registered - packets.complete - packets.failed,
        "open question": work.questions,
        "open scope request": work.scope_requests,
        "open review": work.reviews,
        "accepted task that has not landed": overview.attention(work, has_plan).to_land,
    }
    return [_count(name, count) for name, count in counts.items() if count]


def _count(name: str, count: int) -> str:
    if name.startswith("accepted"):
        verb = "has" if count == 1 else "have"
        return f"{pluralize(count, 'accepted task')} that {verb} not landed"
    return pluralize(count, name)


def is_task_needed(tx: Transaction, task: Task) -> bool:
    """Whether something that is not over refers to a finished task, or a number that must not be
    given twice was last given to it."""
    swarm_id, task_id = task.swarm_id, task.task_id
    return (
        tx.assignment(swarm_id, task_id) is not None
        or any(each.status != "done" for each in tx.dependents(swarm_id, task_id))
        or bool(tx.open_questions_of_task(swarm_id, task_id, 1))
        or _has_newest_number(tx, swarm_id, task_id)
        or (task.contract_version is not None and _is_contract_open(tx, swarm_id, task_id))
    )


def _has_newest_number(tx: Transaction, swarm_id: str, task_id: str) -> bool:
    questions = tx.questions(swarm_id, 1, only_open=False)
    requests = tx.scope_requests(swarm_id, 1, only_open=False)
    return task_id in {
        *(question.task_id for question in questions),
        *(request.task_id for request in requests),
    }


def _is_contract_open(tx: Transaction, swarm_id: str, task_id: str) -> bool:
    landing, review = tx.landing(swarm_id, task_id), tx.review(swarm_id, task_id)
    tracking = tx.tracking(swarm_id, task_id)
    return (
        (landing is not None and landing.landed_commit is None)
        or (review is not None and review.state == "open")
        or (tracking is not None and tracking.look_at_ms is not None)
        or tx.repo_lock_of_task(swarm_id, task_id) is not None
        or any(each.task_id == task_id for each in tx.scope_requests(swarm_id, 500, only_open=True))
    )
