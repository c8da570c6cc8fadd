"""The questions of one attempt: whether it waits for an answer, and which answers there are."""

from __future__ import annotations

from typing import NamedTuple

from shiftboss.errors import StaleEpoch, TaskMismatch
from shiftboss.orchestrator.run.server_client import RunServerClient


class NewAnswers(NamedTuple):
    """Answers that no prompt of the attempt had yet. `has_unread`: the agent has not read some of
    them, so it had exited before."""

    texts: list[str]
    has_unread: bool


class AttemptQuestions:
    def __init__(self, client: RunServerClient, worker: str, bead_id: str, epoch: int) -> None:
        self._client = client
        self._worker = worker
        self._bead_id = bead_id
        self._epoch = epoch
        self._prompted: set[int] = set()
        self._delivered: set[int] = set()

    def note_delivered(self, bead_id: str, epoch: int, question_id: int) -> None:
        """An agent has polled the answer to a question. It may be that of another attempt."""
        if (bead_id, epoch) == (self._bead_id, self._epoch):
            self._delivered.add(question_id)

    async def is_blocked(self) -> bool:
        """Whether the agent has asked a question and this attempt still waits for the answer. Then
        it has not failed: it is parked, and the next attempt gets the answer."""
        view = await self._client.call("show_task", bead_id=self._bead_id)
        if (view.get("state"), view["epoch"]) != ("blocked", self._epoch):
            return False
        listing = await self._client.call("list_questions", only_open=True)
        return any(question["bead_id"] == self._bead_id for question in listing["questions"])

    async def new_answers(self) -> NewAnswers:
        listing = await self._client.call("list_questions", only_open=False)
        answers = {
            question["question_id"]: question["answer"]
            for question in listing["questions"]
            if (question["bead_id"], question["epoch"]) == (self._bead_id, self._epoch)
            and question.get("answer") is not None
            and question["question_id"] not in self._prompted
        }
        self._prompted |= answers.keys()
        unread = await self._undelivered() & answers.keys() if answers else set()
        return NewAnswers(list(answers.values()), bool(unread))

    async def _undelivered(self) -> set[int]:
        """The server delivers an answer until a report shows that the worker has continued. An
        agent may finish without one, so its polls count as well."""
        try:
            beat = await self._client.call(
                "heartbeat", name=self._worker, bead_id=self._bead_id, epoch=self._epoch
            )
        except (StaleEpoch, TaskMismatch):
            return set()  # the attempt is over, and nothing is delivered to it anymore
        return {answer["question_id"] for answer in beat["answers"]} - self._delivered
