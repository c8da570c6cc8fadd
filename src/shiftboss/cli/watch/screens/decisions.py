"""The dialogs behind the keys, which ask before a request is sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from textual.app import App

from shiftboss.cli.watch.model import actions
from shiftboss.cli.watch.model.actions import OperatorAction, Selection
from shiftboss.cli.watch.model.cells import money
from shiftboss.cli.watch.screens.dialogs import Confirm, Prompt

Screens = App[Any]
Decide = Callable[[Screens, Selection], Awaitable[OperatorAction | None]]


async def answer(app: Screens, target: Selection) -> OperatorAction | None:
    question = target.question
    text = question.text if question else ""
    typed = await app.push_screen_wait(Prompt(f"Answer {target.task_id}", text, "your answer"))
    return actions.answer(target, typed) if typed else None


async def approve(app: Screens, target: Selection) -> OperatorAction | None:
    """Raises CommitNotShown before it asks."""
    action, item = actions.approve(target), target.item("review")
    commit = str(action.members["commit"])[:12]
    text = item.title if item else ""
    question = f"Approve {target.task_id} at {commit}, so that it lands?"
    chosen = await app.push_screen_wait(Confirm(question, text, {"y": "approve"}))
    return action if chosen else None


async def reject(app: Screens, target: Selection) -> OperatorAction | None:
    text = "Its commit does not land. The next attempt gets the reason."
    reason = await app.push_screen_wait(Prompt(f"Reject {target.task_id}", text, "what to change"))
    return actions.reject(target, reason) if reason else None


async def decide_scope(app: Screens, target: Selection) -> OperatorAction | None:
    item = target.item("scope")
    text = "\n".join([item.text, *(f"  {path}" for path in item.paths)]) if item else ""
    choices = {"y": "grant", "n": "refuse"}
    question = f"Grant {target.task_id} these files?"
    chosen = await app.push_screen_wait(Confirm(question, text, choices))
    if chosen != "n":
        return actions.decide_scope(target, granted=True) if chosen else None
    note = await app.push_screen_wait(
        Prompt(f"Refuse the files that {target.task_id} asks for", "", "a note", needed=False)
    )
    return None if note is None else actions.decide_scope(target, granted=False, note=note)


async def retry(app: Screens, target: Selection) -> OperatorAction | None:
    """Asks first if this ends a running attempt."""
    if target.status == "active" and not target.item("stuck_claim"):
        text = "This ends the attempt that is running."
        question = f"Retry {target.task_id}?"
        if not await app.push_screen_wait(Confirm(question, text, {"y": "retry"})):
            return None
    return actions.retry(target)


async def cancel(app: Screens, target: Selection) -> OperatorAction | None:
    text = "Its agent is stopped. Tasks that depend on it keep waiting. `r` brings it back."
    question = f"Cancel {target.task_id}?"
    if not await app.push_screen_wait(Confirm(question, text, {"y": "cancel it"})):
        return None
    reason = await app.push_screen_wait(
        Prompt(f"Why is {target.task_id} cancelled?", "", "may be left empty", needed=False)
    )
    return None if reason is None else actions.cancel(target, reason)


async def raise_budget(app: Screens, target: Selection) -> OperatorAction | None:
    item = target.item("budget")
    if item is None:
        return None
    unit = actions.budget_unit(item)
    suggested = actions.suggested_limits(item.command).get(unit)
    value = (
        "" if suggested is None else f"{suggested:g}" if unit == "dollars" else str(int(suggested))
    )
    spent = item.budget.get("spent")
    used = f", {money(spent)} used" if spent and unit == "dollars" else ""
    typed = await app.push_screen_wait(
        Prompt(f"The new limit in {unit}{used}", item.text, unit, value)
    )
    amount = _number(typed)
    return None if amount is None else actions.raise_budget(item, amount)


def _number(typed: str | None) -> float | None:
    """The server reports an invalid number; text that is not a number is not sent."""
    try:
        amount = float((typed or "").replace(",", "").lstrip("$"))
    except ValueError:
        return None
    return amount if amount > 0 and amount != float("inf") else None


async def pause(app: Screens, swarm_id: str) -> OperatorAction | None:
    text = "Running tasks continue. No others start until it is resumed."
    reason = await app.push_screen_wait(
        Prompt(f"Pause {swarm_id}", text, "why", actions.PAUSE_REASON)
    )
    return actions.pause(swarm_id, reason) if reason else None


DECISIONS: Final[dict[str, Decide]] = {
    "a": answer,
    "y": approve,
    "n": reject,
    "s": decide_scope,
    "b": raise_budget,
    "r": retry,
    "c": cancel,
}
