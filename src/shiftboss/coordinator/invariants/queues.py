"""Invariants of the queue: the waiting tasks, their dependencies and their order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from shiftboss.coordinator.invariants.facts import BrokenInvariant, SwarmFacts


def dependencies_are_counted(facts: SwarmFacts) -> Iterator[BrokenInvariant]:
    """`waits_for` is the number of dependencies that are not done, or wait for their approval."""
    for task in facts.tasks.values():
        unfinished = sum(
            not _is_finished(facts, other) for other in facts.depends_on.get(task.task_id, ())
        )
        if task.waits_for != unfinished:
            yield facts.broken(
                "dependencies",
                f"task {task.task_id}",
                f"waits for {task.waits_for} tasks; {unfinished} of its dependencies are not done",
            )


def _is_finished(facts: SwarmFacts, task_id: str) -> bool:
    task, review = facts.tasks.get(task_id), facts.reviews.get(task_id)
    return task is not None and task.status == "done" and (review is None or review.state != "open")


def ready_tasks_are_counted(facts: SwarmFacts) -> Iterator[BrokenInvariant]:
    ready = Counter(
        task.priority
        for task in facts.tasks.values()
        if task.status == "queued" and task.waits_for == 0
    )
    for priority in sorted(ready.keys() | facts.queues.keys()):
        queue = facts.queues.get(priority)
        counted = queue.ready if queue is not None else 0
        if counted != ready[priority]:
            yield facts.broken(
                "ready_count",
                f"queue {priority}",
                f"counts {counted} ready tasks and has {ready[priority]}",
            )


def finished_tasks_are_counted(facts: SwarmFacts) -> Iterator[BrokenInvariant]:
    """And so are the accepted ones, that is those with a landing."""
    counted = Counter(
        task.status
        for task in facts.tasks.values()
        if task.status in ("done", "failed", "cancelled")
    )
    counted["accepted"] = len(facts.landings)
    for what in sorted(counted.keys() | facts.totals.keys()):
        if facts.totals.get(what, 0) != counted[what]:
            yield facts.broken(
                "finished_count",
                f"tasks {what}",
                f"{facts.totals.get(what, 0)} are counted, and there are {counted[what]}",
            )


def queue_numbers_are_unique(facts: SwarmFacts) -> Iterator[BrokenInvariant]:
    """Tasks of a priority have different numbers, none beyond the last one given. A task that was
    handed out before it was ever queued gets its place by its age, which two can share."""
    numbers = Counter(
        (task.priority, task.queue_number)
        for task in facts.tasks.values()
        if task.queue_number is not None and task.queue_number > 0
    )
    for (priority, number), count in sorted(numbers.items()):
        queue = facts.queues.get(priority)
        if count > 1 or queue is None or number > queue.last_number:
            yield facts.broken(
                "queue_number",
                f"queue {priority}",
                f"has {count} tasks with number {number}; the last one given is "
                f"{queue.last_number if queue else 'none'}",
            )


def dependencies_exist(facts: SwarmFacts) -> Iterator[BrokenInvariant]:
    for task_id, others in facts.depends_on.items():
        for name in (task_id, *others):
            if name not in facts.tasks:
                yield facts.broken("dependencies", f"dependency of {task_id}", f"{name} is missing")
