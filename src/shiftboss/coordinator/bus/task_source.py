"""The port to a tracker that knows tasks which the store does not, and what is taken from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from shiftboss.errors import Conflict, TaskEnded, UnknownTask
from shiftboss.protocol.bus import AddTaskRequest, TaskRequest
from shiftboss.protocol.tracker_tasks import FoundTask
from shiftboss.store.port import Store

# The task with that id, or None when the tracker does not know it. Raises TrackerUnavailable when
# no answer comes that can be used.
FindTask = Callable[[str], Awaitable[FoundTask | None]]

# One submit may look up so many tasks, its dependencies and theirs included.
LOOKUPS_MAX = 50


async def gather(store: Store, find_task: FindTask, request: TaskRequest) -> list[AddTaskRequest]:
    """A task of the tracker, after what it depends on and the store does not know."""
    gathering = _Gathering(store, find_task, request)
    if not await gathering.take(request.bead_id):
        raise TaskEnded(request.bead_id, "done")
    return gathering.found


class _Gathering:
    def __init__(self, store: Store, find_task: FindTask, request: TaskRequest) -> None:
        self._store = store
        self._find_task = find_task
        self._request = request
        self._undone: dict[str, bool] = {}
        self.found: list[AddTaskRequest] = []

    async def take(self, task_id: str) -> bool:
        """Take the task and what it depends on. Whether it is to be done at all."""
        if task_id in self._undone:
            return self._undone[task_id]
        if len(self._undone) == LOOKUPS_MAX:
            raise Conflict(
                f"{self._request.bead_id} depends on more than {LOOKUPS_MAX} unknown tasks",
                field="bead_id",
                hint="import them first: `shiftboss task import FILE.jsonl`",
            )
        found = await self._find_task(task_id)
        if found is None:
            raise UnknownTask(task_id)
        self._undone[task_id] = not found.is_done
        if not found.is_done:
            depends_on = [one for one in found.depends_on if await self._must_wait_for(one)]
            self.found.append(_request(self._request.swarm_id, found, depends_on))
        return not found.is_done

    async def _must_wait_for(self, task_id: str) -> bool:
        swarm_id = self._request.swarm_id
        known = await self._store.read(lambda tx: tx.task(swarm_id, task_id))
        return known is not None or await self.take(task_id)


def _request(swarm_id: str, found: FoundTask, depends_on: list[str]) -> AddTaskRequest:
    return AddTaskRequest(
        swarm_id=swarm_id,
        bead_id=found.task_id,
        title=found.title,
        description=found.description,
        priority=found.priority,
        depends_on=depends_on,
    )
