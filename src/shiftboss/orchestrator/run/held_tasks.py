"""Tasks that wait for a person: shown when they begin to wait, and again while they do."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from shiftboss.errors import ShiftbossError
from shiftboss.orchestrator.run.plan_status import PlanStatus
from shiftboss.orchestrator.run.progress import Stage
from shiftboss.orchestrator.run.run_context import RunContext

REMIND_SECONDS: Final = 600.0


class HeldTasks:
    """Shows what the run waits for, with the command that helps."""

    def __init__(self, run: RunContext) -> None:
        self._run = run
        self._shown: dict[str, tuple[str, float]] = {}

    def show(self, plan_status: PlanStatus) -> None:
        self._run.progress.questions = [
            question
            for question in plan_status.questions
            if plan_status.stage_of_held(question["bead_id"]) == "blocked"
        ]
        for bead_id, text in plan_status.held.items():
            stage = plan_status.stage_of_held(bead_id)
            self._run.progress.stage(bead_id, stage, text)
            self._log(bead_id, text, stage)
        for bead_id in self._shown.keys() - plan_status.held.keys():
            del self._shown[bead_id]
            if plan_status.status(bead_id) == "active":
                self._run.progress.stage(bead_id, "working", "continues")
            elif plan_status.status(bead_id) in ("open", "queued"):
                self._run.progress.stage(bead_id, "queued")

    def _log(self, bead_id: str, text: str, stage: Stage) -> None:
        shown, at = self._shown.get(bead_id, ("", 0.0))
        now = time.monotonic()
        if shown != text or now - at >= REMIND_SECONDS:
            self._shown[bead_id] = (text, now)
            self._run.progress.log(bead_id, f"{stage}: {text}")


class InlineAnswers:
    """Answers that are typed at the terminal of the run. `submit` is called from another thread."""

    def __init__(self, run: RunContext) -> None:
        self._run = run
        self._loop = asyncio.get_running_loop()
        self._answers: asyncio.Queue[tuple[int, str]] = asyncio.Queue()

    def submit(self, question_id: int, text: str) -> None:
        self._loop.call_soon_threadsafe(self._answers.put_nowait, (question_id, text))

    async def send(self) -> None:
        """Send the answers to the server, without end."""
        while True:
            question_id, text = await self._answers.get()
            try:
                await self._run.client.call("answer_question", question_id=question_id, answer=text)
            except ShiftbossError as error:
                self._run.progress.log("", f"question {question_id}: {error.detail}")
