"""The port to a task tracker, and how a submit imports unknown tasks from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from shiftboss.errors import Conflict, TaskEnded, UnknownTask
from shiftboss.protocol.bus import AddTaskRequest, TaskRequest
from shiftboss.protocol.tracker_tasks import TrackerTask
from shiftboss.store.port import Store

# The task with that id, or None if the tracker does not know it. Raises TrackerUnavailable when the
# tracker gives no usable answer.
FindTask = Callable[[str], Awaitable[TrackerTask | None]]

# How many tasks one submit may look up, including dependencies of dependencies.
LOOKUPS_MAX = 50


async def import_requests(
    store: Store, find_task: FindTask, request: TaskRequest
) -> list[AddTaskRequest]:
    """The task and its dependencies that the store does not know, dependencies first."""
    tracker_import = _TrackerImport(store, find_task, request)
    if not await tracker_import.add(request.bead_id):
        raise TaskEnded(request.bead_id, "done")
    return tracker_import.requests


class _TrackerImport:
    def __init__(self, store: Store, find_task: FindTask, request: TaskRequest) -> None:
        self._store = store
        self._find_task = find_task
        self._request = request
        self._is_open: dict[str, bool] = {}
        self.requests: list[AddTaskRequest] = []

    async def add(self, task_id: str) -> bool:
        """Add the task and what it depends on; whether the task is still open."""
        if task_id in self._is_open:
            return self._is_open[task_id]
        if len(self._is_open) == LOOKUPS_MAX:
            raise Conflict(
                f"{self._request.bead_id} depends on more than {LOOKUPS_MAX} unknown tasks",
                field="bead_id",
                hint="import the file of the tracker first, with the command task import",
            )
        task = await self._find_task(task_id)
        if task is None:
            raise UnknownTask(task_id)
        self._is_open[task_id] = not task.is_done
        if not task.is_done:
            depends_on = [other for other in task.depends_on if await self._must_wait_for(other)]
            self.requests.append(_request(self._request.swarm_id, task, depends_on))
        return not task.is_done

    async def _must_wait_for(self, task_id: str) -> bool:
        swarm_id = self._request.swarm_id
        task = await self._store.read(lambda tx: tx.task(swarm_id, task_id))
        return task is not None or await self.add(task_id)


def _request(swarm_id: str, task: TrackerTask, depends_on: list[str]) -> AddTaskRequest:
    return AddTaskRequest(
        swarm_id=swarm_id,
        bead_id=task.task_id,
        title=task.title,
        description=task.description,
        priority=task.priority,
        depends_on=depends_on,
    )
