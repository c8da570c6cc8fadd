"""SwarmWorker: a worker reports about its packet, and nothing that it reports is lost."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ValidationError

from shiftboss.client.backoff import Deadline
from shiftboss.client.exchange import checked
from shiftboss.client.server_address import Server
from shiftboss.errors import ShiftbossError, UnknownPacket
from shiftboss.protocol.packets import (
    CompleteRequest,
    ErrorRequest,
    ProgressRequest,
    RegisterRequest,
    Report,
)
from shiftboss.protocol.swarms import WorkerView
from shiftboss.worker.checkpoints import (
    Checkpoint,
    DamagedCheckpointError,
    read_checkpoint,
    remove_own_checkpoint,
)
from shiftboss.worker.reporter import Reporter, Standing

# Coming back after a restart: the server knows best how far a packet has come.


log = logging.getLogger(__name__)


def settle(reporter: Reporter, standing: Standing, deadline: Deadline) -> int:
    """How many tasks are completed by the server's count, once the packet is registered and none
    of its reports waits. The checkpoint says the same afterwards, or is gone with its swarm.

    What the checkpoint said, when the server does not tell.
    """
    try:
        status = reporter.status(standing.swarm_id, deadline)
        known = _packet_in(status, standing.packet_id)
        settled = standing.model_copy(update={"tasks_completed": known.tasks_completed})
        report = _last_report(settled, known)
    except (ShiftbossError, ValidationError) as error:
        log.warning("packet %s goes on from its checkpoint: %s", standing.packet_id, error)
        return standing.tasks_completed
    if not (remove_own_checkpoint(standing, status) or _tells_of(settled, report)):
        reporter.correct(settled, report)
    return settled.tasks_completed


class _Listing(BaseModel):
    workers: list[dict[str, Any]]


def _packet_in(status: Mapping[str, Any], packet_id: int) -> WorkerView:
    for worker in _Listing.model_validate(status).workers:
        if worker.get("packet_id") == packet_id:
            return WorkerView.model_validate(worker)
    raise UnknownPacket(str(status.get("swarm_id")), packet_id)


def _last_report(standing: Standing, known: WorkerView) -> Report:
    """The report that the checkpoint has to tell of; whoever cleans up looks for a completion."""
    if known.status != "complete":
        return standing.registration()
    return checked(
        CompleteRequest,
        packet_id=known.packet_id,
        final_commit=known.final_commit,
        tests_passed=known.tests_passed,
        review_passed=known.review_passed,
    )


def _tells_of(standing: Standing, report: Report) -> bool:
    event = "complete" if isinstance(report, CompleteRequest) else "registered"
    try:
        found = read_checkpoint(standing)
    except DamagedCheckpointError:
        return False
    return found is not None and (found.event, found.tasks_completed) == (
        event,
        standing.tasks_completed,
    )


log = logging.getLogger(__name__)

T = TypeVar("T")


class SwarmWorker:
    """Each report is checked, written to the checkpoint and to the outbox, and then sent.

    A server that is away does not hold the worker up: the answer is then `{"acknowledged": False,
    "queued": True, ...}` and the report is delivered later, in order and once. A report that the
    server refuses is raised as an error of `shiftboss.errors` and leaves no trace.
    """

    def __init__(
        self,
        swarm_id: str,
        packet_id: int,
        packet_name: str,
        worktree: str | os.PathLike[str],
        tasks_total: int,
        *,
        server: str | None = None,
        token: str | None = None,
    ) -> None:
        self.swarm_id = swarm_id
        self.packet_id = packet_id
        self.packet_name = packet_name
        self.worktree = os.fspath(worktree)
        self.tasks_total = tasks_total
        self.tasks_completed = 0
        self._server = Server.at(server, token)
        self._reporter: Reporter | None = None
        # One thread: the reports of a worker have an order, and a cancelled call is not cut in two.
        self._turns = ThreadPoolExecutor(1, thread_name_prefix="shiftboss-worker")

    async def register(self) -> dict[str, Any]:
        return await self._in_turn(partial(self._report, self._registration()))

    async def report_progress(
        self, task_id: str, task_name: str, status: str, commit: str | None = None
    ) -> dict[str, Any]:
        """`tasks_completed` goes up by one when the status is "completed"."""
        return await self._in_turn(partial(self._progress, task_id, task_name, status, commit))

    async def report_complete(
        self, final_commit: str, tests_passed: bool, review_passed: bool
    ) -> dict[str, Any]:
        """When this completes the swarm, its checkpoints on this machine are removed."""
        request = checked(
            CompleteRequest,
            packet_id=self.packet_id,
            final_commit=final_commit,
            tests_passed=tests_passed,
            review_passed=review_passed,
        )
        return await self._in_turn(partial(self._report, request))

    async def report_error(
        self, task_id: str, error_type: str, message: str, recoverable: bool
    ) -> dict[str, Any]:
        request = checked(
            ErrorRequest,
            packet_id=self.packet_id,
            task_id=task_id,
            error_type=error_type,
            message=message,
            recoverable=recoverable,
        )
        return await self._in_turn(partial(self._report, request))

    async def resume(self) -> dict[str, Any]:
        """After a restart: deliver what waits, register again, and go on from what the server
        has counted; from the checkpoint while the server is away."""
        return await self._in_turn(self._resume)

    async def cleanup(self) -> bool:
        """Remove the checkpoint if the swarm is complete; whether it is."""
        return await self._in_turn(self._cleanup)

    async def aclose(self) -> None:
        """Deliver no more from this process. What waits is left to a courier."""
        await self._in_turn(self._close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def _in_turn(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._turns, call)

    def _progress(
        self, task_id: str, task_name: str, status: str, commit: str | None
    ) -> dict[str, Any]:
        # Here and not in the call: of two calls at the same time, the second counts from the first.
        completed = self._standing().tasks_completed + (status == "completed")
        request = checked(
            ProgressRequest,
            packet_id=self.packet_id,
            task_id=task_id,
            task_name=task_name,
            status=status,
            tasks_completed=completed,
            tasks_total=self.tasks_total,
            commit=commit,
        )
        return self._report(request, tasks_completed=completed)

    def _resume(self) -> dict[str, Any]:
        registration = self._registration()
        found = self._recall(registration)
        deadline = Deadline()
        answer = self._report(
            registration,
            # The checkpoint of a packet that is done says so until the swarm is complete.
            keep_checkpoint=found is not None and found.event == "complete",
            at_once=True,
            deadline=deadline,
        )
        if answer.get("registered"):
            reporter = self._reporter_of(registration)
            self.tasks_completed = settle(reporter, self._standing(), deadline)
        return answer

    def _recall(self, registration: RegisterRequest) -> Checkpoint | None:
        try:
            found = read_checkpoint(registration)
        except DamagedCheckpointError as error:
            log.warning("%s: counting from 0, unless the server knows more", error)
            self.tasks_completed = 0
            return None
        if found is not None:
            self.tasks_completed = found.tasks_completed
        return found

    def _cleanup(self) -> bool:
        registration = self._registration()
        status = self._reporter_of(registration).status(self.swarm_id, Deadline())
        return remove_own_checkpoint(registration, status)

    def _close(self) -> None:
        if self._reporter is not None:
            self._reporter.close()

    def _registration(self) -> RegisterRequest:
        return checked(
            RegisterRequest,
            packet_id=self.packet_id,
            packet_name=self.packet_name,
            tasks_total=self.tasks_total,
            worktree=self.worktree,
        )

    def _standing(self) -> Standing:
        return checked(
            Standing,
            **self._registration().model_dump(),
            swarm_id=self.swarm_id,
            tasks_completed=self.tasks_completed,
        )

    def _report(
        self,
        report: Report,
        *,
        tasks_completed: int | None = None,
        keep_checkpoint: bool = False,
        at_once: bool = False,
        deadline: Deadline | None = None,
    ) -> dict[str, Any]:
        before = self._standing()
        standing = before
        if tasks_completed is not None:
            standing = before.model_copy(update={"tasks_completed": tasks_completed})
        reporter = self._reporter_of(before)
        recorded = reporter.record(standing, report, keep_checkpoint=keep_checkpoint)
        self.tasks_completed = standing.tasks_completed
        try:
            return reporter.deliver(recorded, deadline or Deadline(), at_once=at_once)
        except ShiftbossError:
            self.tasks_completed = before.tasks_completed
            reporter.undo(recorded)
            raise

    def _reporter_of(self, packet: RegisterRequest) -> Reporter:
        if self._reporter is None:
            self._reporter = Reporter(packet, self._server)
        return self._reporter
