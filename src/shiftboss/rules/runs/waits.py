"""What a task of a run waits for, in one line, with the command that helps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shiftboss.errors import Conflict


def question_text(question: Mapping[str, Any], swarm_id: str) -> str:
    """The first line of a question, and the command that answers it."""
    first_line = str(question["question"]).partition("\n")[0]
    number = question["question_id"]
    return (
        f"question {number}: {first_line} "
        f"(answer it: shiftboss questions answer {number} TEXT --swarm {swarm_id})"
    )


def hold_text(hold: Mapping[str, Any], swarm_id: str) -> str:
    """A pause without an end, or an exhausted budget."""
    task = f" --task {hold['bead_id']}" if hold["bead_id"] is not None else ""
    if hold["kind"] == "budget":
        limit = "--dollars X" if "dollar" in hold["reason"] else "--tokens N"
        command = f"shiftboss budget set --swarm {swarm_id}{task} {limit}"
        return f"{hold['reason']} (raise it: {command})"
    return f"paused: {hold['reason']} (resume it: shiftboss swarm resume {swarm_id}{task})"


def cancelled_text(bead_id: str, reason: str | None, swarm_id: str) -> str:
    why = f"cancelled by the operator: {reason}" if reason else "cancelled by the operator"
    return f"{why} (bring it back: shiftboss task retry {bead_id} --swarm {swarm_id})"


def cancelled_dependency_text(bead_id: str, cancelled: str, swarm_id: str) -> str:
    """For a task that cannot start because another one was cancelled."""
    return (
        f"depends on {cancelled}, which was cancelled (cancel it too: shiftboss task cancel "
        f"{bead_id} --swarm {swarm_id}; or bring {cancelled} back: shiftboss task retry "
        f"{cancelled} --swarm {swarm_id})"
    )


def review_text(bead_id: str, commit: str, swarm_id: str) -> str:
    return (
        f"commit {commit[:12]} waits for your review (approve it: shiftboss approve {bead_id} "
        f"--swarm {swarm_id}; or: shiftboss reject {bead_id} --reason TEXT --swarm {swarm_id})"
    )


def refusal_text(error: Conflict, swarm_id: str) -> str:
    """Why a task cannot start yet. If a task of another swarm is in the way, which this run cannot
    finish, with the commands that help."""
    reason = error.detail.removesuffix("; nothing was changed")
    holders = error.facts.get("holders")
    first = holders[0] if isinstance(holders, list) and holders else None
    is_foreign = isinstance(first, dict) and first.get("swarm_id") != swarm_id
    return f"{reason} ({error.hint})" if is_foreign and error.hint else reason
