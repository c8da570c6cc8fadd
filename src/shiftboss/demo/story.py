"""The course of the demo: what is killed when, and what is waited for in between."""

from __future__ import annotations

from typing import NamedTuple

from shiftboss.cli.client import Client, parsed
from shiftboss.demo.crew import Crew
from shiftboss.demo.plan import (
    CRASH_AFTER_TASKS,
    CRASHING,
    FLAKY,
    FLAKY_TASK,
    PACKETS,
    QUEUED_REPORTS_MIN,
    SERVER_KILLED_AFTER_TASKS,
    task_id,
)
from shiftboss.demo.record import Record
from shiftboss.demo.view import View
from shiftboss.demo.watch import start_watching


class Outcome(NamedTuple):
    """What only the one who did it can know."""

    swarm_id: str
    worker_exit_code: int
    server_exit_code: int
    events_before_kill: int


def run_story(crew: Crew, record: Record, view: View) -> Outcome:
    view.say("starting the server")
    crew.make_repos()
    crew.start_server()
    view.say(f"the server is at {crew.address}, its database in {crew.folder}")
    client = Client(crew.address)
    swarm_id = _create_swarm(client)
    start_watching(client, swarm_id, record, view)
    for packet in PACKETS:
        crew.start_worker(packet, swarm_id)
    worker_exit_code = _crash_a_worker(crew, record, view, swarm_id)
    events_before_kill, server_exit_code = _kill_the_server(crew, record, view)
    _wait_for_the_end(crew, record)
    return Outcome(swarm_id, worker_exit_code, server_exit_code, events_before_kill)


def _create_swarm(client: Client) -> str:
    said = {"feature": "The demo: four packets", "workers_expected": len(PACKETS)}
    swarm_id: str = parsed(client.post("/swarm/create", said), "swarm_id")["swarm_id"]
    return swarm_id


def _crash_a_worker(crew: Crew, record: Record, view: View, swarm_id: str) -> int:
    record.wait_for(
        f"{CRASHING.name} does {CRASH_AFTER_TASKS} tasks",
        lambda: len(record.completed(CRASHING.packet_id)) >= CRASH_AFTER_TASKS,
    )
    view.say(f"kill -9 of the worker {CRASHING.name}, and start it again")
    code = crew.kill_worker(CRASHING)
    crew.start_worker(CRASHING, swarm_id)
    return code


def _kill_the_server(crew: Crew, record: Record, view: View) -> tuple[int, int]:
    record.wait_for(
        "the crashed worker and the failed task go on",
        lambda: (
            len(record.completed(CRASHING.packet_id)) >= SERVER_KILLED_AFTER_TASKS
            and task_id(FLAKY_TASK) in record.completed(FLAKY.packet_id)
        ),
    )
    view.say("kill -9 of the server; the workers go on")
    events_before_kill = len(record.events)
    code = crew.kill_server()
    record.wait_for(
        f"{QUEUED_REPORTS_MIN} reports wait for the server",
        lambda: len(record.queued()) >= QUEUED_REPORTS_MIN,
    )
    view.say(f"{len(record.queued())} reports wait in outboxes; starting the server again")
    crew.start_server()
    return events_before_kill, code


def _wait_for_the_end(crew: Crew, record: Record) -> None:
    record.wait_for("the swarm is complete", lambda: record.has_event("swarm_complete"))
    record.wait_for("the workers have ended", crew.all_workers_ended)
