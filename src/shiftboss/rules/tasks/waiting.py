"""What waits for a person or for another task, as sentences with the command that helps."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from shiftboss.rules.claims.handoffs import ScopeRequest
from shiftboss.rules.runs.budgets import MICRO
from shiftboss.rules.runs.records import (
    WHOLE_SWARM,
    BudgetRecord,
    Hold,
    LandingRecord,
    ReviewRecord,
    SpawnRefusal,
)
from shiftboss.rules.tasks.tasks import Question, Task

_TEXT_CHARACTERS_MAX: Final = 300


class Reason(NamedTuple):
    """`kind` is stable. `command` works as printed; None if there is nothing to do."""

    kind: str
    bead_id: str | None
    text: str
    command: str | None = None


class Holder(NamedTuple):
    """A task that owns files which another one needs, or has locked the `repo`."""

    swarm_id: str
    task_id: str
    owned: str
    status: str
    repo: str | None = None


def to_answer(
    questions: Iterable[Question],
    scope_requests: Iterable[ScopeRequest],
    budgets: Iterable[BudgetRecord | None],
) -> list[Question]:
    """The questions that want an answer in words. A question about files is answered by the
    decision on the scope request, one about a budget by raising it."""
    otherwise = {request.question_id for request in scope_requests}
    otherwise |= {budget.question_id for budget in budgets if budget}
    return [question for question in questions if question.question_id not in otherwise]


def question_reason(question: Question) -> Reason:
    command = f"shiftboss questions answer {question.question_id} 'your answer'"
    return Reason(
        "question",
        question.task_id or None,
        f"{question.worker} asks question {question.question_id}: {short_text(question.question)}",
        f"{command} --swarm {question.swarm_id}",
    )


def scope_reason(request: ScopeRequest) -> Reason:
    paths = ", ".join(request.paths[:3]) + (" and more" if len(request.paths) > 3 else "")
    return Reason(
        "scope_request",
        request.task_id,
        f"{request.worker} asks for {paths}: {short_text(request.reason)}",
        f"shiftboss scope grant {request.request_id} --swarm {request.swarm_id}",
    )


def hold_reason(hold: Hold, budget: BudgetRecord | None = None) -> Reason:
    task = "" if hold.task_id == WHOLE_SWARM else f" --task {hold.task_id}"
    if hold.kind == "budget":
        command = f"shiftboss budget set --swarm {hold.swarm_id}{task}{_twice(budget)}"
        return Reason("budget", hold.task_id or None, short_text(hold.reason), command)
    subject = "the whole swarm" if hold.task_id == WHOLE_SWARM else hold.task_id
    until = "until it is resumed" if hold.until_ms is None else f"until {time_text(hold.until_ms)}"
    return Reason(
        "pause",
        hold.task_id or None,
        f"{subject} is paused {until}: {short_text(hold.reason)}",
        f"shiftboss swarm resume {hold.swarm_id}{task}",
    )


def failed_reason(task: Task, plan_file: str | None, workers: int) -> Reason:
    """Without a worker of the run, nobody would take the task: the plan has to be run again."""
    times = "once" if task.failures <= 1 else f"{task.failures} times"
    command = f"shiftboss task retry {task.task_id} --swarm {task.swarm_id}"
    if plan_file is not None and not workers:
        command = f"shiftboss run {shlex.quote(plan_file)} --retry"
    error = f": {short_text(task.last_error)}" if task.last_error else ""
    return Reason("failed", task.task_id, f"it failed {times}{error}", command)


def refusal_reasons(refusal: SpawnRefusal, holders: Sequence[Holder]) -> Iterator[Reason]:
    """`holders` are those that are still in the way."""
    yield from (holder_reason(refusal.task_id, holder) for holder in holders)
    if not holders:
        command = "shiftboss repo list" if refusal.code == "repo_blocked" else "shiftboss status"
        text = f"the last try to start it was refused: {short_text(refusal.detail)}"
        yield Reason("refused_start", refusal.task_id, text, command)


def landing_reason(landing: LandingRecord, plan_file: str | None) -> Reason:
    command = f"shiftboss receipt show {landing.task_id} --swarm {landing.swarm_id}"
    if plan_file is not None:
        command = f"shiftboss land {shlex.quote(plan_file)} {landing.task_id}"
    return Reason(
        "not_landed",
        landing.task_id,
        f"commit {landing.commit_sha[:12]} is accepted (receipt {landing.receipt_id}) "
        "and has not landed",
        command,
    )


def review_reason(review: ReviewRecord) -> Reason:
    task = f"{review.task_id} --swarm {review.swarm_id}"
    return Reason(
        "review",
        review.task_id,
        f"commit {review.commit_sha[:12]} is accepted and waits for your review; "
        f"`shiftboss diff {task}` shows it",
        f"shiftboss approve {task}",
    )


def holder_reason(task_id: str, holder: Holder) -> Reason:
    """A task that is being worked on will be done; another one has to be got out of the way."""
    where = f"{holder.task_id} --swarm {holder.swarm_id}"
    if holder.status in ("active", "queued"):
        command = f"shiftboss why {where}"
    elif holder.repo is not None:
        command = f"shiftboss repo release {holder.repo} --reason 'checked by hand'"
    else:
        command = f"shiftboss task cancel {where}"
    return Reason(
        "overlap" if holder.repo is None else "repo_locked",
        task_id,
        f"{holder.task_id} of the swarm {holder.swarm_id} owns {holder.owned} and is "
        f"{holder.status}",
        command,
    )


def _twice(budget: BudgetRecord | None) -> str:
    """Options for twice the budget. A limit that is left out would be removed."""
    if budget is None:
        return ""
    tokens = "" if budget.tokens is None else f" --tokens {budget.tokens * 2}"
    if budget.microdollars is None:
        return tokens
    return f"{tokens} --dollars {budget.microdollars * 2 / MICRO:g}"


def short_text(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _TEXT_CHARACTERS_MAX else f"{line[: _TEXT_CHARACTERS_MAX - 1]}…"


def time_text(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
