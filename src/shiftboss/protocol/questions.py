"""Questions of workers, messages between them and the coordinator, and their answers."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, StringConstraints

from shiftboss.protocol.bus import BusRequest, DisputeKind, DisputeReason, Evidence
from shiftboss.protocol.fields import (
    INTEGER_MAX,
    NO_NUL,
    Answer,
    Commit,
    Request,
)


class AnswerQuestionRequest(BusRequest):
    question_id: Annotated[int, Field(ge=1, le=INTEGER_MAX)]
    answer: Annotated[str, StringConstraints(min_length=1, max_length=20_000, pattern=NO_NUL)]


class ListQuestionsRequest(BusRequest):
    only_open: bool = True


class MessageRequest(BusRequest):
    """`message` is a message of the worker protocol, see `shiftboss.protocol.messages`."""

    message: dict[str, Any]


class Dispute(Request):
    """Why a worker disputes its contract. `commit` shows it, such as an honest attempt that fails
    its criteria."""

    kind: DisputeKind
    reason: DisputeReason
    evidence: Evidence = ""
    commit: Commit | None = None


class QuestionView(Answer):
    """`dispute` is set if the worker disputes its contract."""

    question_id: int
    bead_id: str
    worker: str
    epoch: int
    contact: str
    question: str
    asked_at: int
    answer: str | None
    answered_at: int | None
    dispute: Dispute | None = None


class QuestionList(Answer):
    questions: list[QuestionView]


class MessageAnswer(Answer):
    """The effect of a message on the worker and its task."""

    accepted: bool
    worker: str
    state: str
    bead_id: str | None
    epoch: int | None
    lease_expires_at: int | None = None
    checkpoint_requested: bool = False
    question_id: int | None = None
    answers: list[dict[str, Any]] = Field(default=[])
    claim_id: int | None = None
