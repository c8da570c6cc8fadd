"""The questions that a person gets about a contract: after several refusals, and when a worker
disputes it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from shiftboss.errors import AlreadyAnswered, IllegalTransition, NotHeld
from shiftboss.protocol.bus import DisputeKind
from shiftboss.protocol.questions import Dispute
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.claims.claims import check_no_claim
from shiftboss.rules.documents.wording import printable_line, printable_text
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.tasks import Question

VIOLATIONS_NAMED_MAX: Final = 10
HEADLINE_CHARACTERS_MAX: Final = 160
_INDENT: Final = "    "
_BEGINNING: Final = re.compile(r"\S+ was refused \d+ times in a row on ")
# The answers that a change of the contract, or a waiver, gives to open disputes.
_CHANGED: Final = re.compile(
    r"The (?:contract has version \d+ now|check .+ is waived): ", re.DOTALL
)
_MEANING: Final[dict[DisputeKind, str]] = {"wrong": "it is wrong", "impossible": "it cannot be met"}


def refusal_question(worker: str, refusals: int, task_id: str, violations: Sequence[str]) -> str:
    named = "\n".join(f"- {violation}" for violation in violations[:VIOLATIONS_NAMED_MAX])
    return (
        f"{worker} was refused {refusals} times in a row on {task_id}. "
        "Answer with instructions, change the contract, waive a check, or cancel the task. "
        f"The reasons of the last refusal:\n{named}"
    )


def asks_about_refusals(question: str) -> bool:
    return _BEGINNING.match(question) is not None


def dispute_meaning(dispute: Dispute) -> str:
    """What the worker says, in one clause."""
    return f"{_MEANING[dispute.kind]}: {printable_line(dispute.reason)}"


def check_can_dispute(assignment: Assignment) -> None:
    """Reject a dispute about work that the server is judging, or that has ended."""
    task_id = assignment.task_id
    if assignment.state in (WorkerState.COMPLETE, WorkerState.FAILED):
        raise NotHeld(task_id, None)
    check_no_claim(assignment, "bead_id")
    if assignment.state is WorkerState.VERIFYING and assignment.lease_expires_at_ms is None:
        raise IllegalTransition(
            f"the server follows the CI of {task_id}; nothing was changed",
            field="bead_id",
            hint="wait for its result, then dispute the contract",
            facts={"state": assignment.state.value},
        )


def check_not_answered(dispute: Dispute, answered: Iterable[Question], contract_at_ms: int) -> None:
    """Reject a dispute that a person has answered in this attempt: a worker could ask the same
    until somebody gives in. What has changed since may be disputed again."""
    reason = dispute_meaning(dispute).casefold()
    for question in answered:
        assert question.dispute is not None
        earlier = Dispute.model_validate_json(question.dispute)
        if dispute_meaning(earlier).casefold() == reason and _insists(question, contract_at_ms):
            raise AlreadyAnswered(
                f"you have disputed this before, and question {question.question_id} has an "
                "answer; nothing was changed",
                field="reason",
                hint="follow the answer; dispute again only with a new reason",
                facts={"question_id": question.question_id, "answer": question.answer},
            )


def _insists(question: Question, contract_at_ms: int) -> bool:
    """Whether the answer left the contract as it was, and nothing has changed it later."""
    assert question.answer is not None
    assert question.answered_at_ms is not None
    is_change = _CHANGED.match(question.answer) is not None
    return not is_change and contract_at_ms <= question.answered_at_ms


def dispute_question(
    worker: str, swarm_id: str, task_id: str, question_id: int, dispute: Dispute
) -> str:
    """The worker's own words come last and are indented: else they could pass for a command of
    ours. The headline has the beginning of them, without the quotes of a command."""
    commands = dispute_commands(swarm_id, task_id, question_id)
    headline = _cut(dispute_meaning(dispute)).replace("`", "'")
    lines = [
        f"{worker} disputes the contract of {task_id}: {headline}",
        *(f"{purpose}: `{command}`" for purpose, command in commands.items()),
    ]
    if dispute.commit:
        lines.append(f"A commit that shows it: {dispute.commit}")
    if not headline.endswith(f": {dispute.reason}"):
        lines += ["The whole reason:", *_indented(dispute.reason)]
    if dispute.evidence:
        lines += ["Evidence:", *_indented(dispute.evidence)]
    return "\n".join(lines)


def _cut(text: str) -> str:
    is_short = len(text) <= HEADLINE_CHARACTERS_MAX
    return text if is_short else f"{text[: HEADLINE_CHARACTERS_MAX - 1]}…"


def _indented(text: str) -> list[str]:
    return [f"{_INDENT}{printable_text(line.expandtabs(4))}" for line in text.splitlines()]


def dispute_commands(swarm_id: str, task_id: str, question_id: int) -> dict[str, str]:
    """What the operator can do about a dispute, and the command for it. The usual one first."""
    where = f"--swarm {swarm_id}"
    return {
        "Change the contract": f"shiftboss handoff amend {task_id} {where}",
        "Insist on it": f"shiftboss questions answer {question_id} 'the contract stands' {where}",
        "Give the task up": f"shiftboss task cancel {task_id} {where}",
    }
