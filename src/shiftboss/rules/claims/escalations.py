"""The questions that a person gets about a contract: after several refusals, and when a worker
disputes it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from shiftboss.protocol.bus import Dispute, DisputeKind

VIOLATIONS_NAMED_MAX: Final = 10
_BEGINNING: Final = re.compile(r"\S+ was refused \d+ times in a row on ")
_MEANING: Final[dict[DisputeKind, str]] = {"wrong": "it is wrong", "impossible": "it cannot be met"}


def refusal_question(worker: str, refusals: int, task_id: str, violations: Sequence[str]) -> str:
    named = "\n".join(f"- {violation}" for violation in violations[:VIOLATIONS_NAMED_MAX])
    return (
        f"{worker} was refused {refusals} times in a row on {task_id}:\n{named}\n"
        "Answer with instructions, change the contract, waive a check, or cancel the task."
    )


def asks_about_refusals(question: str) -> bool:
    return _BEGINNING.match(question) is not None


def dispute_meaning(dispute: Dispute) -> str:
    """What the worker says, in one clause."""
    return f"{_MEANING[dispute.kind]}: {dispute.reason}"


def dispute_question(
    worker: str, swarm_id: str, task_id: str, question_id: int, dispute: Dispute
) -> str:
    """The commands come before the evidence, which may be long."""
    commands = dispute_commands(swarm_id, task_id, question_id)
    lines = [
        f"{worker} disputes the contract of {task_id}: {dispute_meaning(dispute)}",
        *(f"{purpose}: `{command}`" for purpose, command in commands.items()),
    ]
    if dispute.commit:
        lines.append(f"A commit that shows it: {dispute.commit}")
    if dispute.evidence:
        lines.append(f"Evidence:\n{dispute.evidence}")
    return "\n".join(lines)


def dispute_commands(swarm_id: str, task_id: str, question_id: int) -> dict[str, str]:
    """What the operator can do about a dispute, and the command for it. The usual one first."""
    where = f"--swarm {swarm_id}"
    return {
        "Change the contract": f"shiftboss handoff amend {task_id} {where}",
        "Insist on it": f"shiftboss questions answer {question_id} 'the contract stands' {where}",
        "Give the task up": f"shiftboss task cancel {task_id} {where}",
    }
