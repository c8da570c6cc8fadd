"""The board of a swarm at any of its events, folded from the events alone.

It has what the fold of the tasks and attempts has, and what people see beside it: titles, open
questions, claims, holds, milestones, and what was accepted and landed. Like there, what events of
earlier versions leave open is None, and None agrees with everything.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from shiftboss.protocol.events import Event, EventKind
from shiftboss.protocol.policy import Milestone
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.contract.milestones import milestone_view
from shiftboss.rules.runs.records import WHOLE_SWARM
from shiftboss.rules.tasks.event_fold import FoldedAttempt, FoldedSwarm
from shiftboss.rules.tasks.packets import packet_task_id


@dataclass
class FoldedCard:
    """What is told about a task beside its state. Facts about its attempt, from `claim_id` on, are
    those of the current one."""

    title: str
    questions: set[int] = field(default_factory=set)
    # Earlier versions withdrew questions without an event. Such a question is one of these while
    # its attempt lasts, and is in doubt from then on.
    old_questions: set[int] = field(default_factory=set)
    doubtful_questions: set[int] = field(default_factory=set)
    accepted_commit: str | None = None
    landed_commit: str | None = None
    has_ci: bool = False
    claim_id: int | None = None
    is_escalated: bool = False
    # Whether CI has refused the last push; None if the events do not tell it.
    ci_failed: bool | None = False

    def start_attempt(self) -> None:
        self.end_claim()
        # The attempt may go on with what CI says about a push of the one before.
        self.ci_failed = None if self.has_ci else False

    def end_claim(self) -> None:
        self.claim_id, self.is_escalated = None, False


@dataclass
class FoldedBoard:
    """Apply the events in order, from the first."""

    swarm: FoldedSwarm = field(default_factory=FoldedSwarm)
    cards: dict[str, FoldedCard] = field(default_factory=dict)
    # The task, or the whole swarm, and the kind of the hold.
    holds: set[tuple[str, str]] = field(default_factory=set)

    def apply(self, event: Event) -> None:
        self.apply_data(event.event_id, event.kind, json.loads(event.data))

    def apply_data(self, event_id: int, kind: str, data: dict[str, Any]) -> None:
        """Handlers see the state of the attempts before the event."""
        handle = _HANDLERS.get(kind)
        if handle is not None:
            handle(self, data)
        self.swarm.apply_data(event_id, kind, data)

    def card(self, task_id: str) -> FoldedCard:
        return self.cards.setdefault(task_id, FoldedCard(task_id))

    def has(self, task_id: str) -> bool:
        return task_id in self.swarm.tasks or task_id in self.swarm.attempts

    def milestone(self, attempt: FoldedAttempt) -> Milestone | None:
        """None also if the events do not tell it."""
        failed = self.card(attempt.task_id).ci_failed
        if attempt.state is None or (attempt.state is WorkerState.EXECUTING and failed is None):
            return None
        return milestone_view(attempt.state, ci_failed=bool(failed))


Handler = Callable[[FoldedBoard, dict[str, Any]], None]


# -- tasks and packets


def _added(board: FoldedBoard, data: dict[str, Any]) -> None:
    board.cards[data["bead_id"]] = FoldedCard(data.get("title") or data["bead_id"])


def _registered(board: FoldedBoard, data: dict[str, Any]) -> None:
    task_id = packet_task_id(data["packet_id"])
    board.card(task_id).title = data["packet_name"]
    board.card(task_id).start_attempt()


def _started(board: FoldedBoard, data: dict[str, Any]) -> None:
    card = board.card(data["bead_id"])
    held = board.swarm.attempts.get(data["bead_id"])
    if held is None or held.epoch != data["epoch"] or held.state is WorkerState.ASSIGNED:
        card.start_attempt()


def _ended(board: FoldedBoard, data: dict[str, Any]) -> None:
    card, held = board.card(data["bead_id"]), board.swarm.attempts.get(data["bead_id"])
    if held is not None and data.get("epoch", held.epoch) != held.epoch:
        return  # an earlier attempt
    card.end_claim()
    card.doubtful_questions |= card.old_questions & card.questions
    card.questions -= card.doubtful_questions


def _cancelled(board: FoldedBoard, data: dict[str, Any]) -> None:
    board.holds.discard((data["bead_id"], "answer"))
    _ended(board, data)


# -- questions


def _asked(board: FoldedBoard, data: dict[str, Any]) -> None:
    card = board.card(data["bead_id"])
    card.questions.add(data["question_id"])
    if data.get("blocks"):  # also a failure that ends the verification of a claim
        card.end_claim()
    if "dispute" not in data:
        card.old_questions.add(data["question_id"])


def _answered(board: FoldedBoard, data: dict[str, Any]) -> None:
    card = board.card(data["bead_id"])
    card.questions.discard(data["question_id"])
    card.doubtful_questions.discard(data["question_id"])


def _withdrawn(board: FoldedBoard, data: dict[str, Any]) -> None:
    card = board.card(data["bead_id"])
    card.questions.clear()
    card.doubtful_questions.clear()


# -- claims, reviews, landings


def _claimed(board: FoldedBoard, data: dict[str, Any]) -> None:
    card = board.card(data["bead_id"])
    card.claim_id, card.is_escalated = data["claim_id"], False


def _escalated(is_escalated: bool) -> Handler:
    def handle(board: FoldedBoard, data: dict[str, Any]) -> None:
        board.card(data["bead_id"]).is_escalated = is_escalated

    return handle


def _refused(board: FoldedBoard, data: dict[str, Any]) -> None:
    card = board.card(data["bead_id"])
    card.end_claim()
    card.ci_failed = False


def _accepted(board: FoldedBoard, data: dict[str, Any]) -> None:
    card = board.card(data["bead_id"])
    card.end_claim()
    card.accepted_commit, card.landed_commit = data.get("commit"), None


def _landed(board: FoldedBoard, data: dict[str, Any]) -> None:
    board.card(data["bead_id"]).landed_commit = data["landed_commit"]


def _rejected(board: FoldedBoard, data: dict[str, Any]) -> None:
    card = board.card(data["bead_id"])
    card.accepted_commit = card.landed_commit = None


# -- milestones and CI


def _reported(board: FoldedBoard, data: dict[str, Any]) -> None:
    card, milestone = board.card(data["bead_id"]), data.get("milestone")
    card.has_ci = card.has_ci or milestone in ("PUSHED_TO_CI", "FIXING_CI")
    card.ci_failed = milestone == "FIXING_CI"


def _ci_failed(board: FoldedBoard, data: dict[str, Any]) -> None:
    card = board.card(data["bead_id"])
    card.has_ci = True
    if data.get("worker") is not None:
        card.ci_failed = True


# -- holds


def _paused(board: FoldedBoard, data: dict[str, Any]) -> None:
    board.holds.add((data["bead_id"] or WHOLE_SWARM, data["kind"]))


def _resumed(board: FoldedBoard, data: dict[str, Any]) -> None:
    board.holds.discard((data["bead_id"] or WHOLE_SWARM, data["kind"]))


def _over_budget(board: FoldedBoard, data: dict[str, Any]) -> None:
    task_id = WHOLE_SWARM if data.get("scope") == "swarm" else data["bead_id"]
    board.holds.add((task_id, "budget"))


_HANDLERS: Final[dict[str, Handler]] = {
    EventKind.TASK_ADDED.value: _added,
    EventKind.WORKER_REGISTERED.value: _registered,
    EventKind.TASK_ASSIGNED.value: _started,
    EventKind.TASK_STARTED.value: _started,
    EventKind.TASK_DONE.value: _ended,
    EventKind.TASK_FAILED.value: _ended,
    EventKind.ATTEMPT_ENDED.value: _ended,
    EventKind.TASK_CANCELLED.value: _cancelled,
    EventKind.QUESTION_ASKED.value: _asked,
    EventKind.QUESTION_ANSWERED.value: _answered,
    EventKind.QUESTIONS_WITHDRAWN.value: _withdrawn,
    EventKind.CLAIM_MADE.value: _claimed,
    EventKind.CLAIM_ESCALATED.value: _escalated(is_escalated=True),
    EventKind.CLAIM_RETRIED.value: _escalated(is_escalated=False),
    EventKind.CLAIM_REFUSED.value: _refused,
    EventKind.CLAIM_ACCEPTED.value: _accepted,
    EventKind.TASK_LANDED.value: _landed,
    EventKind.REVIEW_REJECTED.value: _rejected,
    EventKind.MILESTONE_REPORTED.value: _reported,
    EventKind.CI_FAILED.value: _ci_failed,
    EventKind.DISPATCH_PAUSED.value: _paused,
    EventKind.DISPATCH_RESUMED.value: _resumed,
    EventKind.BUDGET_EXCEEDED.value: _over_budget,
}
