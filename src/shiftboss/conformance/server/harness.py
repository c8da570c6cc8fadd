"""A server under test, and swarms of the kit's own on it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from functools import cached_property
from typing import Any, Final
from uuid import uuid4

from shiftboss.client.server_address import Server
from shiftboss.conformance.calls import Answered, ServerCalls
from shiftboss.conformance.checks import Broken, NotChecked, NotOffered

NOT_FOUND: Final = 404
POLL_EXTRA_SECONDS: Final = 15.0


class Pending:
    """A call in a thread. `answer` waits for it."""

    def __init__(self, call: Callable[[], Answered]) -> None:
        self._answered: Answered | None = None
        self._broken: Broken | None = None
        self.ended_at = 0.0
        self._thread = threading.Thread(target=self._run, args=(call,), daemon=True)
        self._thread.start()

    def _run(self, call: Callable[[], Answered]) -> None:
        try:
            self._answered = call()
        except Broken as broken:
            self._broken = broken
        self.ended_at = time.monotonic()

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def answer(self, seconds: float) -> dict[str, Any]:
        self._thread.join(seconds)
        if self._broken is not None:
            raise self._broken
        if self._answered is None:
            raise Broken(f"the call was not answered within {seconds:g} s")
        return self._answered.document


class ServerHarness:
    def __init__(self, server: Server, seconds: float) -> None:
        self.calls = ServerCalls(server)
        self.seconds = seconds
        self._bus_swarms: list[str] = []

    def close(self) -> None:
        """Nothing that the kit has queued stays queued."""
        for swarm_id in self._bus_swarms:
            try:
                listed = self.calls.post("/bus/list_tasks", {"swarm_id": swarm_id}).document
                for task in listed.get("tasks") or ():
                    if task["status"] in ("open", "queued", "active"):
                        members = {"swarm_id": swarm_id, "bead_id": task["bead_id"]}
                        self.calls.post("/bus/cancel_task", members)
            except Broken:
                break
        self.calls.close()

    def wire_position(self) -> int:
        return len(self.calls.exchanges)

    def wire_lines(self, since: int) -> list[str]:
        return [exchange.line() for exchange in self.calls.exchanges[since:]]

    def recover(self) -> None:
        pass

    # swarms

    def new_swarm(self, **settings: object) -> str:
        swarm_id = f"conformance-{uuid4().hex[:12]}"
        answered = self.calls.post("/swarm/create", {"swarm_id": swarm_id, **settings})
        if answered.is_error:
            raise Broken(f"POST /swarm/create was refused: {answered.document}")
        return swarm_id

    def report(self, swarm_id: str, operation: str, body: object, **options: Any) -> Answered:
        return self.calls.post(f"/swarm/{swarm_id}/{operation}", body, **options)

    def accepted(self, swarm_id: str, operation: str, body: object) -> dict[str, Any]:
        answered = self.report(swarm_id, operation, body)
        if answered.is_error:
            raise Broken(f"{operation} was refused: {json.dumps(answered.document)[:200]}")
        return answered.document

    def status(self, swarm_id: str) -> dict[str, Any]:
        answered = self.calls.get(f"/swarm/{swarm_id}/status")
        if answered.is_error:
            raise Broken(f"GET /swarm/{swarm_id}/status: {answered.status}")
        return answered.document

    # tools

    @cached_property
    def tools(self) -> dict[str, dict[str, Any]]:
        return self.calls.tools()

    def bus(self) -> Bus:
        """The bus of a new swarm; of a server without swarms, its only one."""
        for name in ("register_worker", "poll_task", "add_task"):
            if name not in self.tools:
                reason = f"the server has no tool {name}"
                raise NotOffered(reason) if name == "add_task" else Broken(reason)
        properties = self.tools["poll_task"].get("inputSchema", {}).get("properties", {})
        swarm_id = self.new_swarm() if "swarm_id" in properties else None
        if swarm_id is not None:
            self._bus_swarms.append(swarm_id)
        return Bus(self, swarm_id)

    def needs_tool(self, name: str) -> None:
        if name not in self.tools:
            raise NotOffered(f"the server has no tool {name}")


class Bus:
    """Tools of the bus in one swarm. Names are unique: a server may have only one swarm."""

    def __init__(self, harness: ServerHarness, swarm_id: str | None) -> None:
        self.harness = harness
        self.swarm_id = swarm_id
        self._suffix = uuid4().hex[:6]

    def name(self, text: str) -> str:
        return f"{text}-{self._suffix}"

    def ask(self, tool: str, /, *, seconds: float | None = None, **arguments: object) -> Answered:
        swarm = {} if self.swarm_id is None else {"swarm_id": self.swarm_id}
        self.harness.needs_tool(tool)
        return self.harness.calls.tool(
            tool, {**arguments, **swarm}, seconds or self.harness.seconds
        )

    def do(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """A call that must succeed."""
        answered = self.ask(tool, **arguments)
        if answered.is_error:
            raise Broken(f"{tool} was refused: {json.dumps(answered.document)[:300]}")
        return answered.document

    def refused(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """A call that must be refused, with the document's `error`."""
        answered = self.ask(tool, **arguments)
        if "error" not in answered.document and not answered.is_error:
            raise Broken(f"{tool} was not refused: {json.dumps(answered.document)[:200]}")
        return answered.document

    def add(self, *names: str) -> list[str]:
        beads = [self.name(name) for name in names]
        for bead_id in beads:
            self.do("add_task", bead_id=bead_id, title=f"Task {bead_id}")
        return beads

    def worker(self, text: str) -> str:
        name = self.name(text)
        self.do("register_worker", name=name)
        return name

    def poll(self, name: str, timeout_ms: int = 5_000) -> dict[str, Any]:
        seconds = timeout_ms / 1000 + POLL_EXTRA_SECONDS
        answered = self.ask("poll_task", seconds=seconds, name=name, timeout_ms=timeout_ms)
        return answered.document

    def park(self, name: str, timeout_ms: int = 20_000) -> Pending:
        """A poll that waits. Returns once the server shows the worker as polling."""
        pending = Pending(
            lambda: self.ask("poll_task", seconds=60, name=name, timeout_ms=timeout_ms)
        )
        self.wait(lambda: pending.is_over or self.status_of(name) == "polling", "polling worker")
        return pending

    def status_of(self, name: str) -> str | None:
        view = self.worker_view(name)
        return None if view is None else str(view.get("status"))

    def worker_view(self, name: str) -> dict[str, Any] | None:
        workers = self.do("get_status").get("workers") or ()
        return next((worker for worker in workers if worker.get("name") == name), None)

    def take(self, name: str, bead_id: str) -> dict[str, Any]:
        """Submit the task to the only free worker, poll and acknowledge it."""
        self.do("submit_task", bead_id=bead_id)
        task: dict[str, Any] = self.poll(name).get("task") or {}
        if task.get("bead_id") != bead_id:
            raise Broken(f"the poll of the only free worker returned {task or 'no task'}")
        self.do("ack_task", name=name, bead_id=bead_id)
        return task

    def wait(self, is_so: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + self.harness.seconds
        while not is_so():
            if time.monotonic() > deadline:
                raise Broken(f"{what}: not within {self.harness.seconds:g} s")
            time.sleep(0.02)


def not_local(reason: str) -> NotChecked:
    return NotChecked(f"needs a git repository that the server can read: {reason}")
