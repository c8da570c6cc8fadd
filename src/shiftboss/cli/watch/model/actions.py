"""The actions on a task or an item of the inbox: which keys apply, which request each one sends,
and the confirmation."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from shiftboss.cli.common.command import ServerSession
from shiftboss.cli.common.options import login_name
from shiftboss.cli.watch.model.cards import BoardCard
from shiftboss.cli.watch.model.inbox import Item
from shiftboss.errors import ShiftbossError

PAUSE_REASON: Final = "paused in shiftboss watch"
_RETRYABLE: Final = ("failed", "cancelled", "active", "queued")
_CANCELLABLE: Final = ("open", "queued", "active")


class CommitNotShown(ShiftbossError):
    """The inbox has so many items that this one was left out."""

    code = "commit_not_shown"
    title = "The commit in review is not shown"

    def __init__(self, swarm_id: str, task_id: str) -> None:
        super().__init__(
            f"the commit of {task_id} is not in the inbox here, so it cannot be approved here",
            hint=f"`shiftboss task show {task_id} --swarm {swarm_id}` shows it; then approve it "
            "with `shiftboss approve --commit`",
        )


class OperatorAction(NamedTuple):
    """A request to the server. `sender` is the method of ServerSession that sends it. `done` says
    what it has done."""

    operation: str
    swarm_id: str
    members: Mapping[str, object]
    done: str
    sender: str = "bus"

    def perform(self, session: ServerSession) -> str:
        """Raises what the server refuses."""
        if self.sender == "operator":
            session.call_as_operator(self.operation, self.swarm_id, **self.members)
        elif self.sender == "maybe_operator":
            session.call_maybe_as_operator(
                self.operation, self.operation, self.swarm_id, **self.members
            )
        else:
            session.call(self.operation, self.swarm_id, **self.members)
        return self.done


class Selection(NamedTuple):
    """The target of the keys: a task, or a swarm if `task_id` is empty. `items` are what waits for
    a person there, the selected one first."""

    swarm_id: str
    task_id: str
    card: BoardCard | None
    items: Sequence[Item]

    def item(self, *kinds: str) -> Item | None:
        return next((item for item in self.items if item.kind in kinds), None)

    @property
    def question(self) -> Item | None:
        """The one that wants an answer in words: those about files or a budget are answered by a
        decision."""
        asked = (item for item in self.items if item.question_id is not None)
        return next((item for item in asked if item.kind not in ("scope", "budget")), None)

    @property
    def pause(self) -> Item | None:
        return self.item("pause")

    @property
    def status(self) -> str:
        if self.card is not None:
            return self.card.status
        return "failed" if self.item("failed") else ""

    def keys(self) -> list[str]:
        """The keys that apply, in the order in which they are shown."""
        card = self.card
        applies = {
            "a": self.question is not None or bool(card and card.question_ids),
            "y": self.item("review") is not None or bool(card and card.in_review),
            "s": self.item("scope") is not None or bool(card and card.scope_request_ids),
            "b": self.item("budget") is not None,
            "r": self.can_retry,
            "c": self.status in _CANCELLABLE and bool(self.task_id),
        }
        applies["n"] = applies["y"]
        return [key for key in "aynsbrc" if applies[key]]

    @property
    def can_retry(self) -> bool:
        stuck = self.item("stuck_claim", "refused_start", "failed")
        return bool(self.task_id) and (stuck is not None or self.status in _RETRYABLE)


def answer(target: Selection, text: str) -> OperatorAction:
    question_id: int | None = None
    if target.question is not None:
        question_id = target.question.question_id
    elif target.card is not None:
        question_id = target.card.question_ids[0]
    return OperatorAction(
        "answer_question",
        target.swarm_id,
        {"question_id": question_id, "answer": text},
        f"question {question_id} is answered",
    )


def approve(target: Selection) -> OperatorAction:
    """Raises CommitNotShown: nobody approves a commit without its name."""
    item = target.item("review")
    if item is None or not item.commit:
        raise CommitNotShown(target.swarm_id, target.task_id)
    return _review(target, "approve", f"{target.task_id} is approved")


def reject(target: Selection, reason: str) -> OperatorAction:
    done = f"{target.task_id} is rejected; its commit does not land"
    return _review(target, "reject", done, reason=reason)


def _review(target: Selection, operation: str, done: str, **members: object) -> OperatorAction:
    """About the commit that was shown: another one may have been accepted since."""
    item = target.item("review")
    decision = {
        "bead_id": target.task_id,
        "commit": (item.commit or None) if item else None,
        "by": login_name(),
    }
    return OperatorAction(operation, target.swarm_id, decision | members, done, "operator")


def decide_scope(target: Selection, *, granted: bool, note: str = "") -> OperatorAction:
    item = target.item("scope")
    request_id = item.request_id if item else None
    if request_id is None and target.card is not None:
        request_id = target.card.scope_request_ids[0]
    verb = "granted" if granted else "refused"
    return OperatorAction(
        "decide_scope",
        target.swarm_id,
        {"request_id": request_id, "granted": granted, "decision": note or None},
        f"scope request {request_id} of {target.task_id} is {verb}",
        "operator",
    )


def retry(target: Selection) -> OperatorAction:
    if target.item("stuck_claim"):
        done = f"verifiers try the claim of {target.task_id} again"
        return OperatorAction(
            "retry_claim", target.swarm_id, {"bead_id": target.task_id}, done, "operator"
        )
    done = f"{target.task_id} is queued again"
    return OperatorAction(
        "retry_task", target.swarm_id, {"bead_id": target.task_id}, done, "maybe_operator"
    )


def cancel(target: Selection, reason: str) -> OperatorAction:
    members = {"bead_id": target.task_id, "reason": reason}
    return OperatorAction("cancel_task", target.swarm_id, members, f"{target.task_id} is cancelled")


def pause(swarm_id: str, reason: str) -> OperatorAction:
    done = f"{swarm_id} is paused: running tasks continue, no others start"
    return OperatorAction("pause_swarm", swarm_id, {"reason": reason or PAUSE_REASON}, done)


def resume(swarm_id: str, task_id: str = "") -> OperatorAction:
    members = {"bead_id": task_id or None}
    return OperatorAction(
        "resume_swarm", swarm_id, members, f"{task_id or swarm_id} is resumed", "operator"
    )


def raise_budget(item: Item, amount: float) -> OperatorAction:
    """Sets the unit that is used up; a limit on the other one stays as it is."""
    unit = budget_unit(item)
    limits = suggested_limits(item.command) | {unit: amount}
    shown = f"${amount:,.2f}" if unit == "dollars" else f"{int(amount):,} {unit}"
    return OperatorAction(
        "set_budget",
        item.swarm_id,
        {"bead_id": item.task_id or None, **_whole_tokens(limits)},
        f"{item.task_id or item.swarm_id} may use {shown}",
        "maybe_operator",
    )


def _whole_tokens(limits: Mapping[str, float]) -> dict[str, object]:
    return {unit: int(limit) if unit == "tokens" else limit for unit, limit in limits.items()}


def budget_unit(item: Item) -> str:
    return str(item.budget.get("unit") or "dollars")


def suggested_limits(command: str) -> dict[str, float]:
    """The limits in the command that the server suggests: one that is enough to continue, and the
    other one unchanged."""
    words = shlex.split(command) if command else []
    return {
        unit: float(words[words.index(f"--{unit}") + 1])
        for unit in ("tokens", "dollars")
        if f"--{unit}" in words[:-1]
    }
