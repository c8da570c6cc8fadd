"""Whether it all holds: asked of the server, its events and git, not of the workers."""

from __future__ import annotations

from signal import SIGKILL
from typing import Any, NamedTuple

from shiftboss.cli.client import Client, parsed, swarm_path
from shiftboss.cli.event_stream import StreamEvent, stored_events
from shiftboss.demo.crew import Crew
from shiftboss.demo.plan import CRASHING, FLAKY, FLAKY_TASK, PACKETS, TASKS_PER_PACKET, task_id
from shiftboss.demo.record import Record
from shiftboss.demo.repos import commits, head, tracked_files
from shiftboss.demo.story import Outcome

TASKS = [task_id(number) for number in range(1, TASKS_PER_PACKET + 1)]


class Fact(NamedTuple):
    text: str
    holds: bool


def facts(crew: Crew, record: Record, outcome: Outcome) -> list[Fact]:
    client = Client(crew.address)
    status = parsed(client.get(swarm_path(outcome.swarm_id, "status")), "workers")
    stored = list(stored_events(client, outcome.swarm_id, 0))
    return [
        _crash(record, outcome),
        _retry(record, status),
        _server_kill(record, outcome, stored),
        _delivery(record),
        _counts(record, status),
        _repos(crew, stored, status),
        _complete(status),
    ]


def _crash(record: Record, outcome: Outcome) -> Fact:
    resumed = record.words_of(CRASHING.packet_id, "resumed")
    done = resumed[0]["tasks_completed"] if resumed else 0
    return Fact(
        f"worker {CRASHING.name} was killed and resumed from its checkpoint with {done} tasks done",
        outcome.worker_exit_code == -SIGKILL
        and len(resumed) == 1
        and len(record.words_of(CRASHING.packet_id, "registered")) == 1
        and 0 < done < TASKS_PER_PACKET,
    )


def _retry(record: Record, status: dict[str, Any]) -> Fact:
    return Fact(
        f"{task_id(FLAKY_TASK)} of {FLAKY.name} failed, was scheduled for a retry and then done",
        record.has_event(
            "worker_error",
            packet_id=FLAKY.packet_id,
            task_id=task_id(FLAKY_TASK),
            retry_scheduled=True,
        )
        and task_id(FLAKY_TASK) in record.completed(FLAKY.packet_id)
        and not any(worker["retries"] for worker in status["workers"]),
    )


def _server_kill(record: Record, outcome: Outcome, stored: list[StreamEvent]) -> Fact:
    """What was seen live, over the death of the server, is what is stored, in order."""
    return Fact(
        f"the server was killed after event {outcome.events_before_kill} and lost nothing: "
        f"{len(stored)} events, without a gap",
        outcome.server_exit_code == -SIGKILL
        and record.events == stored
        and [event.id for event in stored] == list(range(1, len(stored) + 1)),
    )


def _delivery(record: Record) -> Fact:
    queued = record.queued()
    return Fact(
        f"{len(queued)} reports were queued while the server was dead, and delivered",
        len(queued) > 0
        and all(
            word["task"] in record.completed(word["packet_id"])
            for word in queued
            if word["said"] == "progress"
        ),
    )


def _counts(record: Record, status: dict[str, Any]) -> Fact:
    return Fact(
        f"all {status['tasks_total']} tasks were counted once",
        status["tasks_completed"] == status["tasks_total"] == TASKS_PER_PACKET * len(PACKETS)
        and all(record.completed(packet.packet_id) == TASKS for packet in PACKETS),
    )


def _repos(crew: Crew, stored: list[StreamEvent], status: dict[str, Any]) -> Fact:
    finals = {worker["packet_id"]: worker["final_commit"] for worker in status["workers"]}
    reported: dict[int, list[str]] = {packet.packet_id: [] for packet in PACKETS}
    for event in stored:
        if event.event == "progress_update":
            reported[event.data["packet_id"]].append(event.data["commit"])
    return Fact(
        "git has every reported commit, and the work of every task",
        all(
            head(repo) == finals[packet.packet_id]
            and commits(repo)[1:] == reported[packet.packet_id]
            and len(tracked_files(repo)) == TASKS_PER_PACKET + 1
            for packet in PACKETS
            for repo in [crew.repo(packet)]
        ),
    )


def _complete(status: dict[str, Any]) -> Fact:
    return Fact(
        f"the swarm is {status['status']}: {status['workers_complete']} workers complete, "
        f"{status['remaining_workers']} to go, "
        + ("ready to merge" if status["ready_for_merge"] else "not ready to merge"),
        status["status"] == "complete"
        and status["workers_complete"] == len(PACKETS)
        and status["remaining_workers"] == 0
        and bool(status["ready_for_merge"]),
    )
