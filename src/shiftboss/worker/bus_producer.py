"""BusProducer: hands tasks to the bus, each in one durable request, or many in one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from shiftboss.client.bus_client import BusClient
from shiftboss.client.http_client import HttpClient, validated
from shiftboss.client.servers import Servers
from shiftboss.errors import InvalidRequest
from shiftboss.protocol.bus import DEFAULT_SWARM, AddTaskRequest, AddTasksRequest
from shiftboss.protocol.fields import is_swarm_id


class BusProducer:
    """Adds and submits tasks:

        producer = BusProducer()
        await producer.submit("T-1", "Build the parser")
        await producer.submit_many(["T-2", {"bead_id": "T-3", "depends_on": ["T-1", "T-2"]}])

    Every call waits for a server that is down. A task that is there already, with the same
    settings, is not added again, so a call may be repeated.

    `server` is as in `BusWorker`.
    """

    def __init__(
        self,
        *,
        server: str | Sequence[str] | Servers | None = None,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        ca: str | os.PathLike[str] | None = None,
        swarm_id: str | None = None,
    ) -> None:
        self.swarm_id = swarm_id or DEFAULT_SWARM
        if not is_swarm_id(self.swarm_id):
            raise InvalidRequest("swarm_id: is not the id of a swarm", field="swarm_id")
        self._http = HttpClient(Servers.at(server, token, token_file, ca))
        self._client = BusClient(self._http.servers, self.swarm_id, self._http)
        self._can_submit_at_once = True

    async def submit(
        self, bead_id: str, title: str | None = None, **members: Any
    ) -> dict[str, Any]:
        """Returns the answer: the task, with the answer of the submit as `submitted`."""
        task = {"bead_id": bead_id, "title": bead_id if title is None else title, **members}
        validated(AddTaskRequest, swarm_id=self.swarm_id, **task)
        if self._can_submit_at_once:
            try:
                return await self._client.call("add_task", {**task, "submit": True})
            except InvalidRequest as error:
                if error.field != "submit":
                    raise
                self._can_submit_at_once = False  # an older server
        added = await self._client.call("add_task", task)
        submitted = await self._client.call("submit_task", {"bead_id": bead_id})
        return {**added, "submitted": submitted}

    async def submit_many(self, tasks: Iterable[str | Mapping[str, Any]]) -> dict[str, Any]:
        """All of them or none; an error names the place of the task. They may depend on each other
        in any order."""
        plan = [_task(task) for task in tasks]
        validated(AddTasksRequest, swarm_id=self.swarm_id, tasks=plan)
        return await self._client.call("add_tasks", {"tasks": plan, "submit": True})

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._http.__aexit__(kind, error, traceback)


def _task(task: str | Mapping[str, Any]) -> dict[str, Any]:
    members = {"bead_id": task} if isinstance(task, str) else dict(task)
    return {"title": members.get("bead_id"), **members}
