"""Helpers for tests of the bus: parked polls, reports with keys, messages and refusals."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx2

from tests.acceptance.bus.bus import ask, status_of
from tests.client import Client
from tests.waiting import wait_until

TIME = "2026-01-05T08:00:00Z"
# The fields of each message type besides type, worker_id, timestamp and payload.
MEMBERS: dict[str, dict[str, Any]] = {
    "assign": {
        "task_id": "t",
        "spec_path": "specs/t.md",
        "worktree_path": "/w",
        "timeout_seconds": 90,
    },
    "heartbeat": {"context_usage": 0.1, "current_step": None},
    "progress": {},
    "complete": {
        "task_id": "t",
        "files_created": ["a.py"],
        "files_modified": [],
        "verification_passed": True,
        "verification_output": "4 passed",
    },
    "failed": {"task_id": "t", "error": "boom", "recoverable": False, "checkpoint_path": None},
    "blocked": {},
    "context_threshold": {},
}


def message(kind: str, worker: str = "w", **changes: object) -> dict[str, Any]:
    base = {"type": kind, "worker_id": worker, "timestamp": TIME, "payload": {}}
    return base | MEMBERS[kind] | changes


def say(client: Client, kind: str, worker: str = "w", **changes: object) -> dict[str, Any]:
    """The answer to a message that must be accepted."""
    response = client.post("/messages", message(kind, worker, **changes))
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    assert answer["accepted"] is True
    return answer


def refused(
    client: Client, path: str, body: object, status: int, code: str, key: str | None = None
) -> dict[str, Any]:
    """The problem document of a refused request."""
    response = client.post(path, body, key)
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = response.json()
    assert (problem["status"], problem["code"]) == (status, code)
    return problem


def snapshot(client: Client) -> tuple[object, ...]:
    """The state that a refused request must not change, without the idle seconds."""
    status = ask(client, "get_status")
    workers = [
        {k: v for k, v in worker.items() if k != "idle_seconds"} for worker in status["workers"]
    ]
    tasks = ask(client, "list_tasks")["tasks"]
    questions = ask(client, "list_questions", only_open=False)["questions"]
    return (workers, status["queued"], tasks, questions)


class InSwarm(Client):
    """A bus client with its own swarm, so that many tests can share one server."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.url = url
        self.swarm_id = self.create_swarm()

    def post(self, path: str, body: object, key: str | None = None) -> httpx2.Response:
        if path == "/messages":
            path = f"{path}?swarm_id={self.swarm_id}"
        elif isinstance(body, dict) and path.startswith("/bus/"):
            body = {"swarm_id": self.swarm_id} | body
        return super().post(path, body, key)

    def kinds(self) -> list[str]:
        return [event.kind for event in self.stored_events(self.swarm_id)]


class Poll:
    """A poll on its own connection."""

    def __init__(self, url: str, pool: ThreadPoolExecutor, members: dict[str, object]) -> None:
        self._client = Client(url)
        self._answer: Future[dict[str, Any]] = pool.submit(
            ask, self._client, "poll_task", **members
        )
        self._answer.add_done_callback(lambda _: self._client.close())

    def answer(self) -> dict[str, Any]:
        return self._answer.result(15)

    @property
    def waits(self) -> bool:
        return not self._answer.done()


class Polls:
    def __init__(self, client: Client, url: str, pool: ThreadPoolExecutor) -> None:
        self._client = client
        self._url = url
        self._pool = pool
        self._swarm_id = client.swarm_id if isinstance(client, InSwarm) else "default"

    def park(self, name: str, timeout_ms: int = 14_000) -> Poll:
        """A poll of an idle worker that the server has parked."""
        poll = self.start(name, timeout_ms)
        wait_until(lambda: status_of(self._client, name) == "polling", f"{name} polls")
        return poll

    def start(self, name: str, timeout_ms: int = 14_000) -> Poll:
        """A poll, without waiting until the server has received it."""
        members = {"name": name, "timeout_ms": timeout_ms, "swarm_id": self._swarm_id}
        return Poll(self._url, self._pool, members)


@contextmanager
def polling(client: Client, url: str) -> Iterator[Polls]:
    with ThreadPoolExecutor(8) as pool:
        yield Polls(client, url, pool)


@contextmanager
def half_said(client: InSwarm, operation: str, body: str) -> Iterator[socket.socket]:
    """A request on a bare socket, which hangs up at the end of the `with`."""
    address = urlsplit(client.url)
    assert address.hostname is not None
    content = body.replace("{", f'{{"swarm_id": "{client.swarm_id}", ', 1).encode()
    with socket.create_connection((address.hostname, address.port or 0), timeout=10) as line:
        line.sendall(
            f"POST /bus/{operation} HTTP/1.1\r\nHost: {address.netloc}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n".encode()
            + content
        )
        yield line
