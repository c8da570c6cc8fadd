"""The fold of the events: the state of tasks and attempts, from the events alone."""

from __future__ import annotations

import json
from typing import Any

from shiftboss.protocol.events import Event, EventKind
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.tasks.event_fold import FoldedSwarm, fold

ToldEvent = tuple[EventKind, dict[str, Any]]


def folded(*events: ToldEvent) -> FoldedSwarm:
    return fold(
        Event("s", number, kind.value, number, json.dumps({"bead_id": "t", **data}))
        for number, (kind, data) in enumerate(events, start=1)
    )


ADDED = (EventKind.TASK_ADDED, {"depends_on": [], "priority": 2})
ASSIGNED = (EventKind.TASK_ASSIGNED, {"worker": "w", "epoch": 1})
STARTED = (EventKind.TASK_STARTED, {"worker": "w", "epoch": 1, "lease_expires_at": 5})
ENDED = (EventKind.ATTEMPT_ENDED, {"worker": "w", "epoch": 1, "reason": "lease_expired"})
QUEUED = (EventKind.TASK_QUEUED, {"priority": 2, "waits_for": 0})


def test_a_task_goes_from_open_to_done() -> None:
    swarm = folded(ADDED)
    assert (swarm.tasks["t"].status, swarm.tasks["t"].priority) == ("open", 2)
    swarm = folded(ADDED, QUEUED, ASSIGNED, STARTED)
    assert swarm.tasks["t"].status == "active"
    assert swarm.attempts["t"].state is WorkerState.EXECUTING
    swarm = folded(ADDED, ASSIGNED, STARTED, (EventKind.TASK_DONE, {"worker": "w", "epoch": 1}))
    assert (swarm.tasks["t"].status, swarm.attempts) == ("done", {})


def test_an_expired_lease_ends_the_attempt_and_queues_the_task() -> None:
    swarm = folded(ADDED, ASSIGNED, STARTED, ENDED, QUEUED)
    assert (swarm.tasks["t"].status, swarm.tasks["t"].epoch, swarm.attempts) == ("queued", 1, {})


def test_the_end_of_an_older_attempt_does_not_end_the_newer_one() -> None:
    newer = (EventKind.TASK_ASSIGNED, {"worker": "v", "epoch": 2})
    assert folded(ADDED, ASSIGNED, newer, ENDED).attempts["t"].epoch == 2


def test_a_task_waits_for_dependencies_until_they_are_done_and_approved() -> None:
    other = (EventKind.TASK_ADDED, {"bead_id": "u", "depends_on": ["t"]})
    asked: ToldEvent = (EventKind.REVIEW_REQUESTED, {})
    done = (EventKind.TASK_DONE, {"worker": "w", "epoch": 1})
    assert folded(ADDED, other, ASSIGNED, STARTED).waits_for("u") == 1
    assert folded(ADDED, other, ASSIGNED, STARTED, asked, done).waits_for("u") == 1
    approved: ToldEvent = (EventKind.REVIEW_APPROVED, {})
    assert folded(ADDED, other, ASSIGNED, STARTED, asked, done, approved).waits_for("u") == 0


def test_a_question_blocks_only_if_it_says_so() -> None:
    question = {"worker": "w", "epoch": 1, "question_id": 1}
    blocking = (EventKind.QUESTION_ASKED, question | {"blocks": True})
    assert folded(ADDED, ASSIGNED, STARTED, blocking).attempts["t"].state is WorkerState.BLOCKED
    passing = (EventKind.QUESTION_ASKED, question | {"blocks": False})
    assert folded(ADDED, ASSIGNED, STARTED, passing).attempts["t"].state is WorkerState.EXECUTING


def test_what_events_of_earlier_versions_do_not_tell_is_unknown() -> None:
    question = (EventKind.QUESTION_ASKED, {"worker": "w", "epoch": 1, "question_id": 1})
    assert folded(ADDED, ASSIGNED, STARTED, question).attempts["t"].state is None
    failed = (EventKind.TASK_FAILED, {"worker": "w", "epoch": 1, "again": False})
    assert folded(ADDED, ASSIGNED, STARTED, failed).tasks["t"].failures is None
    assert folded((EventKind.TASK_ADDED, {"depends_on": []})).tasks["t"].priority is None


def test_a_packet_counts_its_steps() -> None:
    registered = (
        EventKind.WORKER_REGISTERED,
        {"packet_id": 1, "packet_name": "p", "tasks_total": 3, "attempt": 1},
    )
    progress = (
        EventKind.PROGRESS_UPDATE,
        {"packet_id": 1, "tasks_completed": 2, "tasks_total": 3},
    )
    held = folded(registered, progress).attempts["packet-1"]
    assert (held.state, held.steps_completed) == (WorkerState.EXECUTING, 2)
    error = (EventKind.WORKER_ERROR, {"packet_id": 1, "retry_scheduled": False})
    complete = (EventKind.WORKER_COMPLETE, {"packet_id": 1})
    assert folded(registered, error).attempts["packet-1"].state is WorkerState.FAILED
    after = folded(registered, progress, complete, error).attempts["packet-1"]
    assert after.state is WorkerState.COMPLETE
