"""SwarmWorker: reports the progress of a packet, and loses no report."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ValidationError

from shiftboss.client.backoff import Deadline
from shiftboss.client.http_client import validated
from shiftboss.client.servers import Servers
from shiftboss.errors import ShiftbossError, UnknownPacket
from shiftboss.protocol.packets import (
    CompleteRequest,
    ErrorRequest,
    ProgressRequest,
    RegisterRequest,
    Report,
    checkpoint_path,
)
from shiftboss.protocol.swarms import WorkerView
from shiftboss.worker.checkpoints import (
    Checkpoint,
    DamagedCheckpointError,
    read_checkpoint,
    remove_own_checkpoint,
)
from shiftboss.worker.reporter import PacketProgress, Reporter

log = logging.getLogger(__name__)

T = TypeVar("T")


class SwarmWorker:
    """Each report is validated, written to the checkpoint and the outbox, and then sent.

    A server that is down does not block the worker: the answer is then `{"acknowledged": False,
    "queued": True, ...}`, and the report is delivered later, in order and once. If the server
    refuses a report, the call raises an error of `shiftboss.errors` and undoes the checkpoint.

    `server` is an address, or several of servers that share a database: a list, or a string with
    commas. The worker stays with the one that answers. `token_file` is read again when the server
    refuses the token.
    """

    def __init__(
        self,
        swarm_id: str,
        packet_id: int,
        packet_name: str,
        worktree: str | os.PathLike[str],
        tasks_total: int,
        *,
        server: str | Sequence[str] | Servers | None = None,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        ca: str | os.PathLike[str] | None = None,
    ) -> None:
        self.swarm_id = swarm_id
        self.packet_id = packet_id
        self.packet_name = packet_name
        self.worktree = os.fspath(worktree)
        self.tasks_total = tasks_total
        self.tasks_completed = 0
        self._servers = Servers.at(server, token, token_file, ca)
        self._reporter: Reporter | None = None
        # One thread: reports keep their order, and a cancelled call is still carried out.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="shiftboss-worker")

    @property
    def checkpoint_path(self) -> Path:
        """The file in the work tree that holds the last report."""
        return checkpoint_path(self.worktree, self.packet_id, self.packet_name)

    async def register(self) -> dict[str, Any]:
        return await self._in_thread(partial(self._report, self._registration()))

    async def report_progress(
        self, task_id: str, task_name: str, status: str, commit: str | None = None
    ) -> dict[str, Any]:
        """The status "completed" adds one to `tasks_completed`."""
        return await self._in_thread(partial(self._progress, task_id, task_name, status, commit))

    async def report_complete(
        self, final_commit: str, tests_passed: bool, review_passed: bool
    ) -> dict[str, Any]:
        """When this completes the swarm, its checkpoints on this machine are removed."""
        request = validated(
            CompleteRequest,
            packet_id=self.packet_id,
            final_commit=final_commit,
            tests_passed=tests_passed,
            review_passed=review_passed,
        )
        return await self._in_thread(partial(self._report, request))

    async def report_error(
        self, task_id: str, error_type: str, message: str, recoverable: bool
    ) -> dict[str, Any]:
        request = validated(
            ErrorRequest,
            packet_id=self.packet_id,
            task_id=task_id,
            error_type=error_type,
            message=message,
            recoverable=recoverable,
        )
        return await self._in_thread(partial(self._report, request))

    async def resume(self) -> dict[str, Any]:
        """After a restart: deliver what waits, register again, and continue with the server's count
        of tasks; while the server is down, with that of the checkpoint."""
        return await self._in_thread(self._resume)

    async def cleanup(self) -> bool:
        """Remove the checkpoint if the swarm is complete. Returns whether it is."""
        return await self._in_thread(self._cleanup)

    async def aclose(self) -> None:
        """Stop delivering from this process. A courier process delivers what still waits."""
        await self._in_thread(self._close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    def _progress(
        self, task_id: str, task_name: str, status: str, commit: str | None
    ) -> dict[str, Any]:
        # In the thread, not in the caller: of two concurrent calls, the second counts on the first.
        completed = self._packet().tasks_completed + (status == "completed")
        request = validated(
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
        checkpoint = self._restore_count(registration)
        deadline = Deadline()
        answer = self._report(
            registration,
            # The checkpoint of a complete packet says so until the swarm is complete.
            keep_checkpoint=checkpoint is not None and checkpoint.event == "complete",
            at_once=True,
            deadline=deadline,
        )
        if answer.get("registered"):
            reporter = self._reporter_of(registration)
            self.tasks_completed = _tasks_completed_on_server(reporter, self._packet(), deadline)
        return answer

    def _restore_count(self, registration: RegisterRequest) -> Checkpoint | None:
        try:
            checkpoint = read_checkpoint(registration)
        except DamagedCheckpointError as error:
            log.warning("%s: counting from 0, unless the server knows better", error)
            self.tasks_completed = 0
            return None
        if checkpoint is not None:
            self.tasks_completed = checkpoint.tasks_completed
        return checkpoint

    def _cleanup(self) -> bool:
        registration = self._registration()
        status = self._reporter_of(registration).status(self.swarm_id, Deadline())
        return remove_own_checkpoint(registration, status)

    def _close(self) -> None:
        if self._reporter is not None:
            self._reporter.close()

    def _registration(self) -> RegisterRequest:
        return validated(
            RegisterRequest,
            packet_id=self.packet_id,
            packet_name=self.packet_name,
            tasks_total=self.tasks_total,
            worktree=self.worktree,
        )

    def _packet(self) -> PacketProgress:
        return validated(
            PacketProgress,
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
        before = self._packet()
        packet = before
        if tasks_completed is not None:
            packet = before.model_copy(update={"tasks_completed": tasks_completed})
        reporter = self._reporter_of(before)
        recorded = reporter.record(packet, report, keep_checkpoint=keep_checkpoint)
        self.tasks_completed = packet.tasks_completed
        try:
            return reporter.deliver(recorded, deadline or Deadline(), at_once=at_once)
        except ShiftbossError:
            self.tasks_completed = before.tasks_completed
            reporter.undo(recorded)
            raise

    def _reporter_of(self, packet: RegisterRequest) -> Reporter:
        if self._reporter is None:
            self._reporter = Reporter(packet, self._servers)
        return self._reporter


def _tasks_completed_on_server(
    reporter: Reporter, packet: PacketProgress, deadline: Deadline
) -> int:
    """The server's count, once the packet is registered and none of its reports waits.

    Corrects the checkpoint to that count, or removes it if the swarm is complete. Returns the count
    of the checkpoint if the server does not tell.
    """
    try:
        status = reporter.status(packet.swarm_id, deadline)
        worker = _worker_in(status, packet.packet_id)
        packet_on_server = packet.model_copy(update={"tasks_completed": worker.tasks_completed})
        report = _last_report(packet_on_server, worker)
    except (ShiftbossError, ValidationError) as error:
        log.warning("packet %s continues from its checkpoint: %s", packet.packet_id, error)
        return packet.tasks_completed
    if not (remove_own_checkpoint(packet, status) or _is_recorded(packet_on_server, report)):
        reporter.correct_checkpoint(packet_on_server, report)
    return packet_on_server.tasks_completed


class _StatusAnswer(BaseModel):
    workers: list[dict[str, Any]]


def _worker_in(status: Mapping[str, Any], packet_id: int) -> WorkerView:
    for worker in _StatusAnswer.model_validate(status).workers:
        if worker.get("packet_id") == packet_id:
            return WorkerView.model_validate(worker)
    raise UnknownPacket(str(status.get("swarm_id")), packet_id)


def _last_report(packet: PacketProgress, worker: WorkerView) -> Report:
    """The report that the checkpoint must show: the clean-up looks for a completion."""
    if worker.status != "complete":
        return packet.registration()
    return validated(
        CompleteRequest,
        packet_id=worker.packet_id,
        final_commit=worker.final_commit,
        tests_passed=worker.tests_passed,
        review_passed=worker.review_passed,
    )


def _is_recorded(packet: PacketProgress, report: Report) -> bool:
    """Whether the checkpoint on disk already shows this report."""
    event = "complete" if isinstance(report, CompleteRequest) else "registered"
    try:
        checkpoint = read_checkpoint(packet)
    except DamagedCheckpointError:
        return False
    return checkpoint is not None and (checkpoint.event, checkpoint.tasks_completed) == (
        event,
        packet.tasks_completed,
    )
