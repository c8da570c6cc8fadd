"""What waits for a person or for another task, as sentences with the command that helps."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from shiftboss.errors import Conflict
from shiftboss.protocol.questions import Dispute
from shiftboss.rules.claims.claim_passes import obstacle, waiting_for
from shiftboss.rules.claims.claims import Claim, ClaimPass
from shiftboss.rules.claims.refusal_advice import waive_commands
from shiftboss.rules.handoffs.escalations import (
    asks_about_refusals,
    dispute_commands,
    dispute_meaning,
)
from shiftboss.rules.handoffs.handoffs import ScopeRequest
from shiftboss.rules.runs.budgets import MICRO, budget_hold_text, exceeded_limit
from shiftboss.rules.runs.records import (
    WHOLE_SWARM,
    BudgetRecord,
    Hold,
    LandingRecord,
    PlanRunRecord,
    SpawnRefusal,
    Totals,
)
from shiftboss.rules.tasks.tasks import Question, Task

_TEXT_CHARACTERS_MAX: Final = 300
_NEXT_ITEM: Final = re.compile(r"(?<=[^:\s])\s*\n- ")
_FIRST_ITEM: Final = re.compile(r":\s*\n- ")
_QUOTED_COMMAND: Final = re.compile(r"`(shiftboss [^`]+)`")


class Reason(NamedTuple):
    """`kind` is stable. `command` works as printed; None if there is nothing to do. `also` are
    other commands that help. What has an `until_ms` ends by itself."""

    kind: str
    bead_id: str | None
    text: str
    command: str | None = None
    also: Sequence[str] = ()
    question_id: int | None = None
    until_ms: int | None = None


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


def question_reason(question: Question, refused_by: Sequence[str] = ()) -> Reason:
    """`refused_by` are the checks that refused the last claim of the task."""
    checks = refused_by if can_be_waived(question) else ()
    waive = waive_commands(question.swarm_id, question.task_id, checks)
    if question.dispute is not None:
        return dispute_reason(question, Dispute.model_validate_json(question.dispute), waive)
    command = f"shiftboss questions answer {question.question_id} 'your answer'"
    return Reason(
        "question",
        question.task_id or None,
        f"{question.worker} asks question {question.question_id}: {short_text(question.question)}",
        f"{command} --swarm {question.swarm_id}",
        also=tuple(waive),
        question_id=question.question_id,
    )


def can_be_waived(question: Question) -> bool:
    """Whether the question is about a contract that the work does not meet."""
    return question.dispute is not None or asks_about_refusals(question.question)


def dispute_reason(question: Question, dispute: Dispute, waive: Sequence[str] = ()) -> Reason:
    """`waive` are the commands that waive what refused the work so far."""
    command, *others = dispute_commands(
        question.swarm_id, question.task_id, question.question_id
    ).values()
    return Reason(
        "dispute",
        question.task_id,
        f"{question.worker} disputes its contract: {short_text(dispute_meaning(dispute))}",
        command,
        also=(*others, *waive),
        question_id=question.question_id,
    )


def scope_reason(request: ScopeRequest) -> Reason:
    paths = ", ".join(request.paths[:3]) + (" and more" if len(request.paths) > 3 else "")
    number = f"{request.request_id} --swarm {request.swarm_id}"
    return Reason(
        "scope_request",
        request.task_id,
        f"{request.worker} asks for {paths}: {short_text(request.reason)}",
        f"shiftboss scope grant {number}",
        also=(f"shiftboss scope refuse {number}",),
        question_id=request.question_id,
    )


def hold_reason(
    hold: Hold, budget: BudgetRecord | None = None, used: Totals | None = None
) -> Reason:
    """`used` is what the budget was spent on: the command that raises it has to exceed that."""
    task = "" if hold.task_id == WHOLE_SWARM else f" --task {hold.task_id}"
    if hold.kind == "budget":
        used = used or Totals()
        command = raise_budget_command(hold.swarm_id, hold.task_id, budget, used)
        # More may have been used since the hold was stored: workers finish what they are doing.
        over = exceeded_limit(used, budget)
        text = budget_hold_text(hold.task_id, over) if over else hold.reason
        return Reason("budget", hold.task_id or None, short_text(text), command)
    subject = "the whole swarm" if hold.task_id == WHOLE_SWARM else hold.task_id
    until = "until it is resumed" if hold.until_ms is None else f"until {time_text(hold.until_ms)}"
    return Reason(
        "pause",
        hold.task_id or None,
        f"{subject} is paused {until}: {short_text(hold.reason)}",
        f"shiftboss swarm resume {hold.swarm_id}{task}",
        until_ms=hold.until_ms,
    )


def failed_reason(
    task: Task, run: PlanRunRecord | None, workers: int, refused_by: Sequence[str] = ()
) -> Reason:
    """Without a worker of the run, nobody would take the task: the plan has to be run again.
    `refused_by` are the checks that refused its last claim."""
    times = "once" if task.failures <= 1 else f"{task.failures} times"
    command = f"shiftboss task retry {task.task_id} --swarm {task.swarm_id}"
    if run is not None and not workers:
        command = f"{run.command} --retry"
    error = f": {short_text(task.last_error)}" if task.last_error else ""
    also = waive_commands(task.swarm_id, task.task_id, refused_by)
    return Reason("failed", task.task_id, f"it failed {times}{error}", command, tuple(also))


def refusal_reasons(refusal: SpawnRefusal, holders: Sequence[Holder]) -> Iterator[Reason]:
    """`holders` are those that are still in the way."""
    yield from (holder_reason(refusal.swarm_id, refusal.task_id, holder) for holder in holders)
    if refusal.holders and not holders:
        text = "its last start was refused, but the obstacle is gone: it can start now"
        command = f"shiftboss task show {refusal.task_id} --swarm {refusal.swarm_id}"
        yield Reason("refused_start", refusal.task_id, text, command)
    elif not holders:
        command = "shiftboss repo list" if refusal.code == "repo_blocked" else "shiftboss status"
        text = f"the last attempt to start it was refused: {short_text(refusal.detail)}"
        yield Reason("refused_start", refusal.task_id, text, command)


def landing_reason(landing: LandingRecord, run: PlanRunRecord | None) -> Reason:
    command = f"shiftboss receipt show {landing.task_id} --swarm {landing.swarm_id}"
    if run is not None:
        command = f"shiftboss land {shlex.quote(run.plan_file)} {landing.task_id}"
    return Reason(
        "not_landed",
        landing.task_id,
        f"commit {landing.commit_sha[:12]} is accepted (receipt {landing.receipt_id}) "
        "and has not landed",
        command,
    )


def review_reason(swarm_id: str, task_id: str, commit: str) -> Reason:
    task = f"{task_id} --swarm {swarm_id}"
    return Reason(
        "review",
        task_id,
        f"commit {commit[:12]} is accepted and waits for your review",
        f"shiftboss approve {task}",
        also=(f"shiftboss diff {task}", f"shiftboss reject {task} --reason 'what is wrong'"),
    )


def cancelled_reason(swarm_id: str, task_id: str, why: str | None) -> Reason:
    text = "cancelled by the operator" + (f": {short_text(why)}" if why else "")
    return Reason("cancelled", task_id, text, f"shiftboss task retry {task_id} --swarm {swarm_id}")


def dependency_reason(swarm_id: str, task_id: str, dependency_id: str, status: str) -> Reason:
    """For a task that cannot start because of another one."""
    retry = f"shiftboss task retry {dependency_id} --swarm {swarm_id}"
    command = f"shiftboss why {dependency_id} --swarm {swarm_id}"
    if status == "failed":
        command = retry
    elif status == "cancelled":
        command = f"shiftboss task cancel {task_id} --swarm {swarm_id}"
    text = f"it waits for {dependency_id}, which is {status}"
    also = (retry,) if status == "cancelled" else ()
    return Reason("dependency", task_id, text, command, also)


def not_running_reason(task_id: str | None, run: PlanRunRecord) -> Reason:
    return Reason("not_running", task_id, "no run is working on it", run.command)


def holder_reason(swarm_id: str, task_id: str, holder: Holder) -> Reason:
    """A task that is being worked on will be done, unless its run was killed; another one has to be
    got out of the way."""
    where = f"{holder.task_id} --swarm {holder.swarm_id}"
    also: tuple[str, ...] = ()
    if holder.status in ("active", "queued"):
        command = f"shiftboss why {where}"
        if holder.repo is None and holder.swarm_id != swarm_id:
            also = (f"shiftboss task cancel {where}",)
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
        also,
    )


def raise_budget_command(
    swarm_id: str, task_id: str, budget: BudgetRecord | None, used: Totals
) -> str:
    """Sets twice the limit that is reached, or twice what was used if that is more, and repeats the
    other one: a limit that is left out would be removed, and one of the two is required."""
    is_known = exceeded_limit(used, budget) is not None

    def raised(limit: int, spent: int) -> int:
        return limit if is_known and spent < limit else 2 * max(limit, spent, 1)

    tokens = microdollars = None
    if budget is None or budget.tokens is not None or budget.microdollars is None:
        tokens = raised((budget.tokens if budget else None) or 0, used.tokens)
    if budget is not None and budget.microdollars is not None:
        microdollars = raised(budget.microdollars, used.microdollars)
    return set_budget_command(BudgetRecord(swarm_id, task_id, tokens, microdollars))


def set_budget_command(budget: BudgetRecord) -> str:
    command = f"shiftboss budget set --swarm {budget.swarm_id}"
    if budget.task_id != WHOLE_SWARM:
        command += f" --task {budget.task_id}"
    if budget.tokens is not None:
        command += f" --tokens {budget.tokens}"
    if budget.microdollars is not None:
        command += f" --dollars {_dollars(budget.microdollars)}"
    return command


def _dollars(microdollars: int) -> str:
    """Exact, and never in the form 1e-06."""
    return f"{microdollars / MICRO:.6f}".rstrip("0").rstrip(".")


class CommandPlace(NamedTuple):
    """Where the commands that a run prints have to look: at the `server` that the run was given, or
    in its `database` if that is not the one of the folder."""

    server: str | None = None
    database: str | None = None

    def render(self, command: str) -> str:
        if self.server is not None:
            return f"{command} --server {shlex.quote(self.server)}"
        if self.database is not None:
            return f"SHIFTBOSS_DB={shlex.quote(self.database)} {command}"
        return command

    def render_quoted(self, text: str) -> str:
        """The same for the commands in back quotes of a text."""
        return _QUOTED_COMMAND.sub(lambda match: f"`{self.render(match[1])}`", text)


HERE: Final = CommandPlace()


def in_one_line(text: str, *commands: str | None, place: CommandPlace = HERE) -> str:
    """A sentence and the commands that help, for a log."""
    given = "; or: ".join(place.render(command) for command in commands if command)
    return f"{text} ({given})" if given else text


def reason_line(reason: Reason, place: CommandPlace = HERE) -> str:
    return in_one_line(reason.text, reason.command, *reason.also, place=place)


def refusal_text(error: Conflict, swarm_id: str, place: CommandPlace = HERE) -> str:
    """Why a task cannot start yet. If a task of another swarm is in the way, which this run cannot
    finish, with the commands that help."""
    reason = error.detail.removesuffix("; nothing was changed")
    holders = error.facts.get("holders")
    first = holders[0] if isinstance(holders, list) and holders else None
    is_foreign = isinstance(first, dict) and first.get("swarm_id") != swarm_id
    hint = place.render_quoted(error.hint) if is_foreign and error.hint else ""
    return f"{reason} ({hint})" if hint else reason


def short_text(text: str) -> str:
    """In one line; the items of a list are separated by semicolons."""
    line = " ".join(_FIRST_ITEM.sub(": ", _NEXT_ITEM.sub("; ", text)).split())
    return line if len(line) <= _TEXT_CHARACTERS_MAX else f"{line[: _TEXT_CHARACTERS_MAX - 1]}…"


def time_text(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")


def open_claim_reason(
    claim: Claim, living: Collection[str], passes: Sequence[ClaimPass], now_ms: int
) -> Reason:
    """`living` are the verifiers that ask for claims."""
    if claim.escalated_at_ms is not None and claim.state == "waiting":
        return stuck_claim_reason(claim, passes)
    why = waiting_for(claim, living, passes, now_ms)
    text = f"claim {claim.claim_id} of {claim.worker} "
    if why is None:
        text += f"is being verified by {claim.taken_by}"
        if claim.taken_at_ms is not None:
            text += f" since {time_text(claim.taken_at_ms)}"
    else:
        text += f"waits for its verification: {short_text(why)}"
    command = f"shiftboss handoff show {claim.task_id} --swarm {claim.swarm_id}"
    return Reason("claim", claim.task_id, text, command)


def stuck_claim_reason(claim: Claim, passes: Sequence[ClaimPass]) -> Reason:
    """A claim that no verifier can verify."""
    retry = f"shiftboss claim retry {claim.task_id} --swarm {claim.swarm_id}"
    text = f"claim {claim.claim_id} of {claim.worker} "
    if not passes:
        text += "waits for a verifier, but none is running: start one"
        return Reason("stuck_claim", claim.task_id, text, "shiftboss verifier", (retry,))
    text += f"cannot be verified by any verifier: {short_text(obstacle(passes))}. "
    text += "Fix that, or start a verifier where the repository is; then let them try again"
    return Reason("stuck_claim", claim.task_id, text, retry, ("shiftboss verifier",))
