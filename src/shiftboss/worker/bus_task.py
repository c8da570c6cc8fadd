"""A task that a worker holds, and what the worker reports about it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal

import httpx2

from shiftboss.client.bus_client import POLL_MS, POLL_TIMEOUT, BusClient
from shiftboss.client.http_client import new_idempotency_key
from shiftboss.client.server_address import TIMEOUT
from shiftboss.errors import (
    Conflict,
    ContractViolations,
    InvalidRequest,
    NotFound,
    NotHeld,
    ShiftbossError,
    StaleEpoch,
    TaskEnded,
    UnknownTask,
)
from shiftboss.protocol.messages import Message, MessageType, message_to_json
from shiftboss.worker.combined_calls import CombinedCalls
from shiftboss.worker.heartbeats import StartHeartbeats, TaskHeartbeats
from shiftboss.worker.milestone_reports import MilestoneReports

log = logging.getLogger(__name__)

# How long the final report of a task may take after its loop was left.
FINAL_REPORT_SECONDS: Final = 10.0
LEFT_WITHOUT_RESULT: Final = "left without a result"
REASON_CHARACTERS_MAX: Final = 2_000


def failure_reason(error: BaseException | None) -> str:
    """The reason that is reported for a task whose loop an error has left."""
    if error is None or isinstance(error, asyncio.CancelledError | GeneratorExit):
        return LEFT_WITHOUT_RESULT
    reason = f"{type(error).__name__}: {error}".replace("\0", "")
    # The name of a file may contain what UTF-8 cannot.
    return reason.encode(errors="backslashreplace").decode()[:REASON_CHARACTERS_MAX]


class BusTask(MilestoneReports):
    """End it with `done`, `failed` or `checkpoint`; under the completion contract with `finished`.

    `handoff` is the contract of the task with its context, if it has one; `model` is the model that
    should do it, if the policy names one. `resume_from` is the checkpoint that the previous attempt
    handed over, `salvage` the commits that lost attempts left.

    Every report is retried until the server answers. A report that comes too late, because the
    lease ran out or the task was taken back, raises the server's refusal (`StaleEpoch`, `NotHeld`);
    `is_lost` is set as soon as a heartbeat learns of it.
    """

    def __init__(
        self,
        client: BusClient,
        worker: str,
        delivery: dict[str, Any],
        heartbeat_seconds: float,
        heartbeats: StartHeartbeats = TaskHeartbeats,
        combined: CombinedCalls | None = None,
    ) -> None:
        self.bead_id: str = delivery["bead_id"]
        self.title: str = delivery["title"]
        self.description: str = delivery.get("description", "")
        self.epoch: int = delivery["epoch"]
        self.resume_from: dict[str, Any] | None = delivery.get("checkpoint")
        self.salvage: list[dict[str, Any]] = delivery.get("salvage", [])
        self.handoff: dict[str, Any] | None = delivery.get("handoff")
        self.model: str | None = delivery.get("model")
        self.is_over = False
        self.is_lost = False
        # Called once, from the heartbeat thread.
        self.on_lost: Callable[[], None] | None = None
        self._client = client
        self._worker = worker
        self._combined = combined
        # One key per report: a call that was cancelled and is made again repeats the first.
        self._keys = {
            name: new_idempotency_key() for name in ("ack_task", "worker_done", "task_failed")
        }
        self._heartbeats = heartbeats(
            client, worker, self.bead_id, self.epoch, heartbeat_seconds, self._lose
        )

    async def acknowledge(self) -> None:
        """From here on the worker holds the task. The loop of BusWorker calls this."""
        await self._client.call("ack_task", self._members(), key=self._keys["ack_task"])
        self.begin(lease_runs=False)

    def begin(self, *, lease_runs: bool) -> None:
        """The task was acknowledged; `lease_runs`: just now, with the lease that is wanted."""
        self._heartbeats.start(lease_runs=lease_runs)

    async def done(self, commit: str | None = None, summary: str = "") -> str | None:
        """Report the task done. Returns the receipt if the task has a handoff.

        The server verifies such a task first; without `commit` it takes the tip of the branch. It
        raises ContractViolations if it refuses the work: the worker still holds the task then, and
        can report it done again.
        """
        claim = {"commit": commit, "summary": summary} if commit or summary else {}
        while True:
            try:
                answer = await self._call_end("worker_done", claim, POLL_TIMEOUT)
            except ContractViolations:
                # The next `done` is another report.
                self._keys["worker_done"] = new_idempotency_key()
                raise
            if answer.get("status") != "verifying":
                break
        self._end()
        receipt: str | None = answer.get("receipt_id")
        return receipt

    async def failed(self, reason: str) -> None:
        await self._call_end("task_failed", {"reason": reason})
        self._end()

    async def heartbeat(
        self, context_usage: float | None = None, current_step: str | None = None
    ) -> dict[str, Any]:
        """`checkpoint_requested` in the answer: the context is nearly full, call `checkpoint`."""
        usage = {"context_usage": context_usage, "current_step": current_step}
        task = {"name": self._worker, "bead_id": self.bead_id, "epoch": self.epoch}
        return await self._client.call("heartbeat", task | usage)

    async def progress(self, **payload: object) -> dict[str, Any]:
        """A `commit` is kept for the next attempt; a `state` moves along the state machine."""
        return await self._send(MessageType.PROGRESS, payload)

    async def ask(self, question: str, *, contact: str | None = None) -> str:
        """Ask a person and wait for the answer, however long it takes."""
        payload = {"question": question} | ({"contact": contact} if contact else {})
        return await self._ask(payload)

    async def dispute(
        self,
        kind: Literal["wrong", "impossible"],
        reason: str,
        *,
        evidence: str = "",
        commit: str | None = None,
    ) -> str:
        """Say that the contract is wrong or cannot be met, and wait for the answer. It is not a
        failure. `handoff` is the contract in force after that, which may be a new version."""
        dispute = {"kind": kind, "reason": reason, "evidence": evidence, "commit": commit}
        answer = await self._ask({"dispute": dispute})
        shown = await self._client.call("show_handoff", {"bead_id": self.bead_id})
        self.handoff = shown["handoff"]
        return answer

    async def checkpoint(
        self,
        current_step: int | str,
        files_created: Sequence[str],
        files_modified: Sequence[str],
        **further: object,
    ) -> None:
        """Hand the task over to a fresh worker: this attempt ends."""
        payload = {
            **further,
            "current_step": current_step,
            "files_created": list(files_created),
            "files_modified": list(files_modified),
            "checkpoint_ready": True,
        }
        await self._send(MessageType.CONTEXT_THRESHOLD, payload)
        self._end()

    async def settle(self, reason: str) -> None:
        """Report a task that was left without a result as failed; a refusal is only logged. A
        pushed commit is left to the server instead."""
        if self.is_over:
            return
        if self._server_finishes:
            self._end()
            return
        try:
            await self._call_report("task_failed", {"reason": reason})
            self._end()
        except (Conflict, NotFound) as error:
            log.warning("%s was left without a result: %s", self.bead_id, error.detail)
            self._end()

    async def give_back(self) -> None:
        """Give the task back to the queue: another worker may take it, and it has not failed."""
        if not self.is_over:
            self._end()
            await self._client.call("reset_worker", {"worker_name": self._worker})

    async def return_unstarted(self) -> None:
        """Give a task back that nobody has begun. A refusal is only logged: its lease ends."""
        try:
            await self._client.call("return_task", self._members(), key=new_idempotency_key())
        except ShiftbossError as error:
            log.warning("%s was not given back: %s", self.bead_id, error.detail)

    def give_back_now(self) -> None:
        """Like `return_unstarted`, but from a thread."""
        members, key = self._members(), new_idempotency_key()
        try:
            self._client.call_within(FINAL_REPORT_SECONDS, "return_task", members, key)
        except ShiftbossError as error:
            log.warning("%s was not given back: %s", self.bead_id, error.detail)

    def leave(self) -> None:
        """Stop without a report: the server already knows how the attempt ended."""
        self._end()

    def settle_now(self, reason: str) -> None:
        """Like `settle`, but from a thread, when no event loop is left."""
        self._end()
        if self._server_finishes:
            return
        members, key = self._members() | {"reason": reason}, self._keys["task_failed"]
        try:
            self._client.call_within(FINAL_REPORT_SECONDS, "task_failed", members, key)
        except ShiftbossError as error:
            log.warning("%s was left without a result: %s", self.bead_id, error.detail)

    async def _ask(self, payload: dict[str, Any]) -> str:
        question_id = (await self._send(MessageType.BLOCKED, payload))["question_id"]
        answer = await self._wait_for_answer(question_id)
        # The server repeats the answer until the worker reports that it has it.
        await self.progress(heard=question_id)
        return answer

    async def _wait_for_answer(self, question_id: int) -> str:
        while not self.is_lost:
            polled = await self._client.call(
                "poll_task", {"name": self._worker, "timeout_ms": POLL_MS}, timeout=POLL_TIMEOUT
            )
            for answered in polled.get("answers") or ():
                if answered["question_id"] == question_id:
                    answer: str = answered["answer"]
                    return answer
            # Another task, or a reset: the worker no longer holds this task.
            if polled["task"] is not None or polled.get("reset"):
                break
        raise NotHeld(self.bead_id, None)

    async def _call_end(
        self,
        name: str,
        further: dict[str, Any],
        limits: httpx2.Timeout = TIMEOUT,
    ) -> dict[str, Any]:
        """The report that ends the task. It brings the next one along, if there is one."""
        combined = self._combined
        if combined is None:
            return await self._call_report(name, further, limits)
        members = combined.report(self._keys[name])
        try:
            answer = await self._call_report(name, further | members, limits)
        except InvalidRequest as error:
            if not combined.is_refused(error):
                raise
            answer = await self._call_report(name, further, limits)
        combined.keep(answer.get("next"), self._keys[name])
        return answer

    async def _call_report(
        self,
        name: str,
        further: dict[str, Any],
        timeout: httpx2.Timeout = TIMEOUT,  # noqa: ASYNC109 - of the connection, not of the call
    ) -> dict[str, Any]:
        """A refusal because the attempt is over ends the task here as well: there is nothing left
        to report."""
        try:
            return await self._client.call(
                name, self._members() | further, key=self._keys[name], timeout=timeout
            )
        except (NotHeld, StaleEpoch, TaskEnded, UnknownTask):
            self._end()
            raise

    async def _send(self, kind: MessageType, payload: dict[str, Any]) -> dict[str, Any]:
        attempt = {"task_id": self.bead_id, "epoch": self.epoch}
        message = Message(kind, self._worker, datetime.now(UTC), payload | attempt)
        return await self._client.call(
            "send_message",
            {"message": json.loads(message_to_json(message))},
            key=new_idempotency_key(),
        )

    def _members(self) -> dict[str, Any]:
        return {"name": self._worker, "bead_id": self.bead_id, "epoch": self.epoch}

    def _end(self) -> None:
        self.is_over = True
        self._heartbeats.stop()

    def _lose(self) -> None:
        self.is_lost = True
        if self.on_lost is not None:
            self.on_lost()
