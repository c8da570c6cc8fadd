"""A task in the hands of a worker, and what the worker says about it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from shiftboss.client.bus_client import POLL_MS, POLL_TIMEOUT, BusClient, report_key
from shiftboss.errors import Conflict, ContractViolations, NotFound, NotHeld, ShiftbossError
from shiftboss.protocol.messages import Message, MessageType, message_to_json
from shiftboss.worker.heartbeats import Heartbeats
from shiftboss.worker.milestone_reports import MilestoneReports

log = logging.getLogger(__name__)

# How long the last word about a task may take when its loop has been left.
LAST_WORD_SECONDS: Final = 10.0


class BusTask(MilestoneReports):
    """End it with `done`, `failed` or `checkpoint`; under the completion contract with `finished`.

    `handoff` is the contract of the task with its context, if it has one; `model` is the one that
    should do it, where the policy says so.
    `resume_from` is the checkpoint that the attempt before this one handed over, `salvage` what
    lost attempts left behind. Every report is said again until the server answers. One that comes
    too late, because the lease ran out or the task was taken back, raises the server's refusal
    (`StaleEpoch`, `NotHeld`); `is_lost` says so before.
    """

    def __init__(
        self, line: BusClient, worker: str, delivery: dict[str, Any], heartbeat_seconds: float
    ) -> None:
        self.bead_id: str = delivery["bead_id"]
        self.title: str = delivery["title"]
        self.epoch: int = delivery["epoch"]
        self.resume_from: dict[str, Any] | None = delivery.get("checkpoint")
        self.salvage: list[dict[str, Any]] = delivery.get("salvage", [])
        self.handoff: dict[str, Any] | None = delivery.get("handoff")
        self.model: str | None = delivery.get("model")
        self.is_over = False
        self.is_lost = False
        # Told once, from the thread of the heartbeats.
        self.on_lost: Callable[[], None] | None = None
        self._line = line
        self._worker = worker
        # One each: a call that was cut off and is made again repeats the first.
        self._keys = {name: report_key() for name in ("ack_task", "worker_done", "task_failed")}
        self._beating = Heartbeats(
            line, worker, self.bead_id, self.epoch, heartbeat_seconds, self._lose
        )

    async def acknowledge(self) -> None:
        """From here on the task is this worker's. The loop does it before it hands the task out."""
        await self._line.call("ack_task", self._members(), key=self._keys["ack_task"])
        self._beating.start()

    async def done(self, commit: str | None = None, summary: str = "") -> str | None:
        """The receipt of a task with a handoff, once the server has proven it; without `commit` it
        looks at the tip of the branch. Raises ContractViolations for work that it refuses: the task
        is still this worker's, and can be reported done again."""
        said = {"commit": commit, "summary": summary} if commit or summary else {}
        while True:
            try:
                answer = await self._line.call(
                    "worker_done",
                    self._members() | said,
                    key=self._keys["worker_done"],
                    timeout=POLL_TIMEOUT,
                )
            except ContractViolations:
                # What comes next is another report.
                self._keys["worker_done"] = report_key()
                raise
            if answer.get("status") != "verifying":
                break
        self._end()
        receipt: str | None = answer.get("receipt_id")
        return receipt

    async def failed(self, reason: str) -> None:
        members = self._members() | {"reason": reason}
        await self._line.call("task_failed", members, key=self._keys["task_failed"])
        self._end()

    async def heartbeat(
        self, context_usage: float | None = None, current_step: str | None = None
    ) -> dict[str, Any]:
        """`checkpoint_requested` in the answer: the context is nearly full, call `checkpoint`."""
        said = {"context_usage": context_usage, "current_step": current_step}
        return await self._line.call(
            "heartbeat", {"name": self._worker, "epoch": self.epoch} | said
        )

    async def progress(self, **payload: object) -> dict[str, Any]:
        """A `commit` is kept for whoever takes over; a `state` moves along the state machine."""
        return await self._say(MessageType.PROGRESS, payload)

    async def ask(self, question: str, *, contact: str | None = None) -> str:
        """Ask a person and wait for the answer, however long it takes."""
        words = {"question": question} | ({"contact": contact} if contact else {})
        asked = await self._say(MessageType.BLOCKED, words)
        answer = await self._answer_to(asked["question_id"])
        # Until the worker shows that it has gone on, the answer is given again.
        await self.progress(heard=asked["question_id"])
        return answer

    async def checkpoint(
        self,
        current_step: int | str,
        files_created: Sequence[str],
        files_modified: Sequence[str],
        **further: object,
    ) -> None:
        """Hand the task over to a fresh worker: this attempt is at its end."""
        payload = {
            **further,
            "current_step": current_step,
            "files_created": list(files_created),
            "files_modified": list(files_modified),
            "checkpoint_ready": True,
        }
        await self._say(MessageType.CONTEXT_THRESHOLD, payload)
        self._end()

    async def settle(self, reason: str) -> None:
        """Report a task as failed that was left without a result; nobody hears of a refusal. What
        was pushed goes on without its worker."""
        if self.is_over:
            return
        if self._is_with_server:
            self._end()
            return
        try:
            await self.failed(reason)
        except (Conflict, NotFound) as error:
            log.warning("%s was left: %s", self.bead_id, error.detail)
            self._end()

    async def give_back(self) -> None:
        """Somebody else may have it, and it has not failed."""
        if not self.is_over:
            self._end()
            await self._line.call("reset_worker", {"worker_name": self._worker})

    def leave(self) -> None:
        """Without a word: the server knows already how the attempt ended."""
        self._end()

    def settle_now(self, reason: str) -> None:
        """The same from a thread, where no event loop is left to wait."""
        self._end()
        if self._is_with_server:
            return
        members, key = self._members() | {"reason": reason}, self._keys["task_failed"]
        try:
            self._line.call_within(LAST_WORD_SECONDS, "task_failed", members, key)
        except ShiftbossError as error:
            log.warning("%s was left: %s", self.bead_id, error.detail)

    async def _answer_to(self, question_id: int) -> str:
        while not self.is_lost:
            polled = await self._line.call(
                "poll_task", {"name": self._worker, "timeout_ms": POLL_MS}, timeout=POLL_TIMEOUT
            )
            for one in polled.get("answers") or ():
                if one["question_id"] == question_id:
                    answer: str = one["answer"]
                    return answer
            # Another task, or a reset: this one is no longer ours.
            if polled["task"] is not None or polled.get("reset"):
                break
        raise NotHeld(self.bead_id, None)

    async def _say(self, kind: MessageType, payload: dict[str, Any]) -> dict[str, Any]:
        about = {"task_id": self.bead_id, "epoch": self.epoch}
        message = Message(kind, self._worker, datetime.now(UTC), payload | about)
        return await self._line.call(
            "send_message", {"message": json.loads(message_to_json(message))}, key=report_key()
        )

    def _members(self) -> dict[str, Any]:
        return {"name": self._worker, "bead_id": self.bead_id, "epoch": self.epoch}

    def _end(self) -> None:
        self.is_over = True
        self._beating.stop()

    def _lose(self) -> None:
        self.is_lost = True
        if self.on_lost is not None:
            self.on_lost()
