"""Why a task is where it is: one sentence for each reason, with the command that helps.

`reasons_of` decides from facts that one use case has read. Each reason is one function of the
facts; a new one is a function and a line in `_REASONS`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from shiftboss.protocol.states import WorkerState
from shiftboss.rules.claims.claims import Claim, ClaimPass
from shiftboss.rules.claims.refusal_advice import waive_commands
from shiftboss.rules.contract.records import Halt
from shiftboss.rules.handoffs.handoffs import ScopeRequest
from shiftboss.rules.runs.records import (
    BudgetRecord,
    Hold,
    LandingRecord,
    PlanRunRecord,
    ReviewRecord,
    SpawnRefusal,
    Totals,
)
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.tasks import Question, Task
from shiftboss.rules.tasks.waiting import (
    Holder,
    Reason,
    can_be_waived,
    cancelled_reason,
    dependency_reason,
    failed_reason,
    hold_reason,
    holder_reason,
    landing_reason,
    not_running_reason,
    open_claim_reason,
    question_reason,
    refusal_reasons,
    review_reason,
    scope_reason,
    short_text,
    time_text,
    to_answer,
)

VIOLATIONS_NAMED_MAX: Final = 5


@dataclass(frozen=True)
class TaskSituation:
    """`is_offline`: there is no server that workers could reach. `dependencies` are those that are
    not done or in review, `unlanded` those that are done and have to land first. `workers` are
    those of the swarm that have a task or wait for one. `passes` are those on an open claim, and
    `verifiers` those that are there."""

    task: Task
    run: PlanRunRecord | None = None
    is_offline: bool = False
    assignment: Assignment | None = None
    dependencies: Sequence[Task] = ()
    unlanded: Sequence[str] = ()
    workers: int = 0
    queue_position: int = 0
    holds: Sequence[Hold] = ()
    budgets: Mapping[str, BudgetRecord] = field(default_factory=dict)
    used: Mapping[str, Totals] = field(default_factory=dict)
    questions: Sequence[Question] = ()
    scope_requests: Sequence[ScopeRequest] = ()
    claim: Claim | None = None
    passes: Sequence[ClaimPass] = ()
    verifiers: Collection[str] = ()
    now_ms: int = 0
    violations: Sequence[Mapping[str, Any]] = ()
    halt: Halt | None = None
    paused: str | None = None
    refusal: SpawnRefusal | None = None
    holders: Sequence[Holder] = ()
    landing: LandingRecord | None = None
    review: ReviewRecord | None = None

    @property
    def is_open(self) -> bool:
        """Whether the task still has to be worked on."""
        return self.task.status not in ("done", "cancelled")

    def command(self, words: str) -> str:
        """A command about this task."""
        return f"shiftboss {words} {self.task.task_id} --swarm {self.task.swarm_id}"


def reasons_of(facts: TaskSituation) -> list[Reason]:
    """The most urgent first. There is always at least one."""
    reasons = [reason for reasons in _REASONS for reason in reasons(facts)]
    return reasons or [_unexplained(facts)]


def first_reason(facts: TaskSituation) -> Reason:
    """The most urgent one."""
    every = (reason for reasons in _REASONS for reason in reasons(facts))
    return next(every, None) or _unexplained(facts)


def _unexplained(facts: TaskSituation) -> Reason:
    """A worker that is blocked and has asked nothing that is still open."""
    task, held = facts.task, facts.assignment
    if held is not None and held.state is WorkerState.BLOCKED:
        text = f"{held.worker} is blocked without an open question, so there is nothing to answer"
        return Reason("blocked", task.task_id, text, facts.command("task retry"))
    return Reason(task.status, task.task_id, f"it is {task.status}", facts.command("task show"))


def _questions(facts: TaskSituation) -> Iterator[Reason]:
    asked = to_answer(facts.questions, facts.scope_requests, facts.budgets.values())
    refused_by = [violation["check"] for violation in facts.violations]
    yield from (question_reason(question, refused_by) for question in asked)


def _scope_requests(facts: TaskSituation) -> Iterator[Reason]:
    yield from map(scope_reason, facts.scope_requests)


def _halted(facts: TaskSituation) -> Iterator[Reason]:
    if facts.is_open and facts.halt is not None:
        halt = facts.halt
        yield Reason(
            "halted",
            facts.task.task_id,
            f"its chain of repos is halted by {halt.task_id}: {short_text(halt.reason)}",
            f"shiftboss resume {halt.halt_id} --reason 'it is fixed'",
        )


def _holds(facts: TaskSituation) -> Iterator[Reason]:
    if facts.is_open:
        for hold in facts.holds:
            if hold.kind == "answer" and facts.questions:
                continue  # the question says more
            budget, used = facts.budgets.get(hold.task_id), facts.used.get(hold.task_id)
            yield hold_reason(hold, budget, used)


def _contract_pause(facts: TaskSituation) -> Iterator[Reason]:
    if facts.task.status == "active" and facts.paused is not None:
        text = f"its worker has to wait: {short_text(facts.paused)}"
        yield Reason("contract_pause", facts.task.task_id, text, "shiftboss repo list")


def _dependencies(facts: TaskSituation) -> Iterator[Reason]:
    if facts.task.status not in ("open", "queued"):
        return
    for dependency in facts.dependencies:
        status = "in review" if dependency.status == "done" else dependency.status
        yield dependency_reason(dependency.swarm_id, facts.task.task_id, dependency.task_id, status)
    for task_id in facts.unlanded:
        yield Reason(
            "dependency",
            facts.task.task_id,
            f"it waits for {task_id}, which is accepted and has not landed",
            f"shiftboss why {task_id} --swarm {facts.task.swarm_id}",
        )


def _obstacles(facts: TaskSituation) -> Iterator[Reason]:
    if facts.task.status == "open" and facts.refusal is not None and not facts.dependencies:
        yield from refusal_reasons(facts.refusal, facts.holders)
    elif facts.task.status == "failed":
        task = facts.task
        yield from (holder_reason(task.swarm_id, task.task_id, each) for each in facts.holders)


def _not_submitted(facts: TaskSituation) -> Iterator[Reason]:
    waits = facts.dependencies or facts.unlanded or facts.refusal or facts.holds
    if facts.task.status != "open" or waits:
        return
    if facts.run is None:
        text, command = "it was added, but not submitted", facts.command("task submit")
    elif facts.workers:
        text, command = "its run has not started it yet", facts.command("task show")
    else:
        yield not_running_reason(facts.task.task_id, facts.run)
        return
    yield Reason("not_submitted", facts.task.task_id, text, command)


def _queued(facts: TaskSituation) -> Iterator[Reason]:
    if facts.task.status != "queued" or facts.dependencies or facts.holds or facts.halt:
        return
    swarm_id = facts.task.swarm_id
    command = f"shiftboss worker list --swarm {swarm_id}"
    text = f"it is number {facts.queue_position} in the queue"
    if facts.workers:
        busy = "the only worker is" if facts.workers == 1 else f"all {facts.workers} workers are"
        text += f", and {busy} busy"
    else:
        text += f", and no worker asks for tasks of the swarm {swarm_id}"
        if facts.run is not None:
            command = facts.run.command
    yield Reason("queued", facts.task.task_id, text, command)


def _left_behind(facts: TaskSituation) -> Iterator[Reason]:
    """Without a server no worker is at work, whatever the last one has stored."""
    if facts.task.status != "active" or not facts.is_offline:
        return
    if facts.run is not None:
        yield not_running_reason(facts.task.task_id, facts.run)
    else:
        text = f"{facts.task.worker or 'its worker'} cannot continue: no server is running"
        yield Reason("not_running", facts.task.task_id, text, "shiftboss serve")


def _at_work(facts: TaskSituation) -> Iterator[Reason]:
    held = facts.assignment
    if facts.task.status != "active" or facts.is_offline:
        return
    if held is None or held.state is WorkerState.BLOCKED:
        return
    if held.state is WorkerState.ASSIGNED:
        text = f"it is offered to {held.worker}, which has not acknowledged it"
        command = f"shiftboss worker list --swarm {facts.task.swarm_id}"
    elif held.claim_id is not None:
        return
    else:
        text = f"{held.worker} has been working on it since {time_text(held.registered_at_ms)}"
        command = facts.command("task show" if facts.run is None else "logs")
    yield Reason("at_work", facts.task.task_id, text, command)


def _claim(facts: TaskSituation) -> Iterator[Reason]:
    claim = facts.claim
    if claim is None or facts.task.status not in ("active", "failed"):
        return
    if claim.state in ("waiting", "taken"):
        yield open_claim_reason(claim, facts.verifiers, facts.passes, facts.now_ms)
    elif claim.state == "refused":
        show = facts.command("handoff show")
        # The reason of a question about the refusals names the commands already.
        already_named = {violation["check"] for violation in facts.violations}
        already_named = already_named if any(map(can_be_waived, facts.questions)) else set()
        for violation in facts.violations[:VIOLATIONS_NAMED_MAX]:
            check = violation["check"]
            text = f"claim {claim.claim_id} was refused by the check {check}"
            text += f": {short_text(violation['message'])}"
            task = facts.task
            waive = waive_commands(task.swarm_id, task.task_id, {check} - already_named)
            already_named.add(check)
            yield Reason("claim_refused", task.task_id, text, show, tuple(waive))


def _failed(facts: TaskSituation) -> Iterator[Reason]:
    if facts.task.status == "failed":
        yield failed_reason(facts.task, facts.run, facts.workers)


def _cancelled(facts: TaskSituation) -> Iterator[Reason]:
    if facts.task.status == "cancelled":
        task = facts.task
        yield cancelled_reason(task.swarm_id, task.task_id, task.last_error)


def _done(facts: TaskSituation) -> Iterator[Reason]:
    if facts.task.status != "done":
        return
    landing = facts.landing
    if landing is None:
        text = f"{facts.task.worker or 'its worker'} reported that it is done"
        yield Reason("done", facts.task.task_id, text, facts.command("task show"))
    elif landing.landed_commit is None:
        if facts.review is not None and facts.review.state == "open":
            review = facts.review
            yield review_reason(review.swarm_id, review.task_id, review.commit_sha)
        else:
            yield landing_reason(landing, facts.run)
    else:
        text = f"it has landed on {landing.target} as {landing.landed_commit[:12]}"
        text += f", receipt {landing.receipt_id}"
        yield Reason("landed", facts.task.task_id, text, facts.command("receipt show"))


_REASONS: Final[Sequence[Callable[[TaskSituation], Iterator[Reason]]]] = (
    _questions,
    _scope_requests,
    _halted,
    _holds,
    _contract_pause,
    _dependencies,
    _obstacles,
    _not_submitted,
    _queued,
    _claim,
    _left_behind,
    _at_work,
    _failed,
    _cancelled,
    _done,
)
