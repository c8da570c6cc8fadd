"""Shiftboss over bare HTTP: the calls that docs/workers-in-other-languages.md shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bench.peers.adapters.lean_http import LeanConnection
from bench.peers.adapters.place import place
from bench.peers.producer import OneByOne
from bench.peers.records import Kind, record

Call = Callable[[str, dict[str, Any]], dict[str, Any]]

_POLL_MS: Final = 30_000


def server(number: int) -> str:
    """One of the servers, in turn."""
    servers = place().split(",")
    return servers[number % len(servers)]


def over_http(number: int) -> Call:
    connection = LeanConnection(server(number))
    return lambda operation, body: connection.post(f"/bus/{operation}", body)


def producer(number: int) -> OneByOne:
    return enqueuing(over_http(number))


def work(number: int) -> None:
    take_tasks(over_http(number), f"w-{number}")


def enqueuing(call: Call) -> OneByOne:
    return OneByOne(
        lambda job: call("add_task", {"bead_id": f"job-{job}", "title": "A job", "submit": True})
    )


def take_tasks(call: Call, worker: str) -> None:
    """With the calls that do the work of two: a poll acknowledges, a report asks for the next."""
    call("register_worker", {"name": worker})
    record(Kind.READY)
    poll = {"name": worker, "timeout_ms": _POLL_MS, "ack": True}
    task = None
    while True:
        task = task or call("poll_task", poll)["task"]
        if task is None:
            continue
        job = int(task["bead_id"].removeprefix("job-"))
        record(Kind.TAKEN, job)
        # It does not wait for the next one: only the answer says that this one is recorded.
        held = {"name": worker, "bead_id": task["bead_id"], "epoch": task["epoch"]}
        answer = call("worker_done", held | {"poll": True, "timeout_ms": 0, "ack": True})
        record(Kind.DONE, job)
        task = answer["next"]["task"]
        if task is not None and task["bead_id"] == held["bead_id"]:
            task = None  # the same delivery again, which a worker has to expect
