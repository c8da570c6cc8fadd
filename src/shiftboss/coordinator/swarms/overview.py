"""The operator's overview of a swarm: its work in numbers, and the items that wait for a person.

The cost grows with the open work. How many tasks are over, and how many are accepted, is kept by
the store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from shiftboss.protocol.bus import ReasonView
from shiftboss.protocol.swarms import SwarmWork
from shiftboss.rules.handoffs.handoffs import ScopeRequest
from shiftboss.rules.runs.budgets import MICRO
from shiftboss.rules.runs.records import (
    WHOLE_SWARM,
    BudgetRecord,
    Hold,
    OpenCounts,
    PlanRunRecord,
    SpawnRefusal,
    Totals,
)
from shiftboss.rules.tasks.swarms import SwarmAttention, TaskCounts
from shiftboss.rules.tasks.tasks import Question
from shiftboss.rules.tasks.waiting import (
    Holder,
    Reason,
    dependency_reason,
    failed_reason,
    hold_reason,
    landing_reason,
    not_running_reason,
    question_reason,
    refusal_reasons,
    review_reason,
    scope_reason,
    stuck_claim_reason,
    to_answer,
)
from shiftboss.store.port import Transaction

# Of each kind: enough to start with.
WAITING_NAMED_MAX = 20
# For a run, which shows every task that waits.
WAITING_LISTED_MAX = 500


def task_counts(tx: Transaction, swarm_id: str) -> TaskCounts:
    return TaskCounts(**tx.task_counts(swarm_id))


def live_workers(tx: Transaction, swarm_id: str, polling: frozenset[str] | None) -> int:
    """How many workers have a task or wait for one. Without a server, none can."""
    return 0 if polling is None else len(polling.union(tx.busy_workers(swarm_id)))


def work_of(tx: Transaction, swarm_id: str, tasks: TaskCounts, workers: int) -> SwarmWork:
    accepted, landed = tx.landing_counts(swarm_id) if tasks.total else (0, 0)
    totals = tx.usage_totals(swarm_id, WHOLE_SWARM) if tasks.total else Totals()
    waiting = tx.open_counts(swarm_id) if tasks.total else OpenCounts()
    return SwarmWork(
        total=tasks.total,
        **tasks._asdict(),
        receipts=accepted,
        landed=landed,
        questions=waiting.questions,
        scope_requests=waiting.scope_requests,
        holds=waiting.holds,
        reviews=waiting.reviews,
        refused_starts=waiting.refused_starts,
        stuck_claims=waiting.stuck_claims,
        workers=workers,
        tokens=totals.tokens,
        dollars=totals.microdollars / MICRO,
        unpriced_tokens=totals.unpriced_tokens,
    )


def attention(work: SwarmWork, has_plan: bool) -> SwarmAttention:
    """Only a plan says that its work is to land; other work is merged without our knowledge."""
    return SwarmAttention(
        has_workers=work.workers > 0,
        is_held=bool(work.questions or work.scope_requests or work.holds or work.refused_starts),
        reviews=work.reviews,
        to_land=max(work.receipts - work.landed - work.reviews, 0) if has_plan else 0,
    )


def waiting_in(
    tx: Transaction,
    swarm_id: str,
    run: PlanRunRecord | None,
    workers: int,
    limit: int = WAITING_NAMED_MAX,
) -> list[ReasonView]:
    """What waits for a person, or for another task to get out of the way: by kind, what agents
    ask first, then pauses, claims that nobody can verify, failures, tasks that wait for a
    cancelled one, refused starts and landings; at most `limit` of each."""
    return [reason_view(reason) for reason in reasons_in(tx, swarm_id, run, workers, limit)]


def reason_view(reason: Reason) -> ReasonView:
    return ReasonView(
        kind=reason.kind,
        bead_id=reason.bead_id,
        text=reason.text,
        command=reason.command,
        also=list(reason.also),
        question_id=reason.question_id,
        until=reason.until_ms,
    )


def reasons_in(
    tx: Transaction, swarm_id: str, run: PlanRunRecord | None, workers: int, limit: int
) -> Iterator[Reason]:
    if run is not None and not workers and _has_work_left(tx, swarm_id):
        yield not_running_reason(None, run)
    yield from _questions_and_holds(tx, swarm_id, limit)
    for claim in tx.escalated_claims(swarm_id, limit):
        yield stuck_claim_reason(claim, tx.claim_passes(claim))
    for task in tx.tasks_with_status(swarm_id, "failed", limit):
        yield failed_reason(task, run, workers, _refused_by(tx, swarm_id, task.task_id))
    for task_id, cancelled_id in tx.waiting_for_cancelled(swarm_id, limit):
        yield dependency_reason(swarm_id, task_id, cancelled_id, "cancelled")
    yield from _refused_starts(tx, swarm_id, limit)
    yield from _unlanded(tx, swarm_id, run, workers, limit)


def left_out(
    tx: Transaction,
    swarm_id: str,
    run: PlanRunRecord | None,
    workers: int,
    listed: Sequence[Reason],
    limit: int,
) -> int:
    """How many reasons `reasons_in` has left out at this limit, as counted by the store. Holds and
    refused starts are not counted: it does not know how many of them are listed as reasons."""
    if len(listed) < limit:
        return 0
    counts = tx.open_counts(swarm_id)
    listed_of = Counter(reason.kind for reason in listed)
    unlanded = counts.reviews
    if _lists_landings(run, workers):
        accepted, landed = tx.landing_counts(swarm_id)
        unlanded = accepted - landed
    dependencies = 0
    if listed_of["dependency"] == limit:
        dependencies = tx.waiting_for_cancelled_count(swarm_id)
    totals = (
        (counts.stuck_claims, listed_of["stuck_claim"]),
        (task_counts(tx, swarm_id).failed, listed_of["failed"]),
        (dependencies, listed_of["dependency"]),
        (unlanded, listed_of["review"] + listed_of["not_landed"]),
    )
    return _questions_left_out(tx, swarm_id, counts.questions, limit) + sum(
        max(total - shown, 0) for total, shown in totals
    )


def _has_work_left(tx: Transaction, swarm_id: str) -> bool:
    """Whether a run would find something to do. A task that waits for a failed or cancelled one
    needs more than a run."""
    tasks = task_counts(tx, swarm_id)
    return bool(tasks.active or tasks.queued or (tasks.open and not tasks.failed + tasks.cancelled))


def _is_over(tasks: TaskCounts) -> bool:
    """Whether nothing is left that a hold of the whole swarm could hold back."""
    return bool(tasks.total) and not (tasks.open or tasks.queued or tasks.active or tasks.failed)


class _Asked(NamedTuple):
    """What agents ask, and the holds: some holds ask a question, too."""

    questions: list[Question]
    scope_requests: list[ScopeRequest]
    holds: list[tuple[Hold, BudgetRecord | None]]

    @property
    def budgets(self) -> list[BudgetRecord | None]:
        return [budget for _, budget in self.holds]


def _asked(tx: Transaction, swarm_id: str, limit: int) -> _Asked:
    return _Asked(
        tx.questions(swarm_id, limit, only_open=True),
        tx.scope_requests(swarm_id, limit, only_open=True),
        [
            (hold, tx.budget(swarm_id, hold.task_id))
            for hold in tx.open_holds(swarm_id, limit)
            if hold.task_id != WHOLE_SWARM or not _is_over(task_counts(tx, swarm_id))
        ],
    )


def _questions_and_holds(tx: Transaction, swarm_id: str, limit: int) -> Iterator[Reason]:
    asked = _asked(tx, swarm_id, limit)
    questions, scope_requests, holds = asked
    for question in to_answer(questions, scope_requests, asked.budgets):
        yield question_reason(question, _refused_by(tx, swarm_id, question.task_id))
    yield from map(scope_reason, scope_requests)
    asking = {question.task_id for question in questions}
    for hold, budget in holds:
        if hold.kind != "answer" or hold.task_id not in asking:
            yield hold_reason(hold, budget, tx.usage_totals(swarm_id, hold.task_id))


def _questions_left_out(tx: Transaction, swarm_id: str, total: int, limit: int) -> int:
    """Of `total` open questions, those that are listed neither as such nor as a scope request or a
    budget."""
    questions, scope_requests, _ = asked = _asked(tx, swarm_id, limit)
    if len(questions) < limit:
        return 0
    listed: set[int | None] = {question.question_id for question in questions}
    listed |= {request.question_id for request in scope_requests}
    listed |= {budget.question_id for budget in asked.budgets if budget}
    listed.discard(None)  # asked in another way
    return max(total - len(listed), 0)


def _refused_by(tx: Transaction, swarm_id: str, task_id: str) -> list[str]:
    """The checks that refused the last claim of the task."""
    claim = tx.last_claim(swarm_id, task_id)
    return claim.refused_by if claim is not None else []


def _unlanded(
    tx: Transaction, swarm_id: str, run: PlanRunRecord | None, workers: int, limit: int
) -> Iterator[Reason]:
    for landing in tx.landings_to_come(swarm_id, (-1, ""), limit):
        review = tx.review(swarm_id, landing.task_id)
        if review is not None and review.state == "open":
            yield review_reason(swarm_id, review.task_id, review.commit_sha)
        elif run is not None and _lists_landings(run, workers):
            yield landing_reason(landing, run)


def _lists_landings(run: PlanRunRecord | None, workers: int) -> bool:
    """A run that is at work lands what needs no review, unless that is left to the user."""
    return run is not None and not (workers and run.auto_merge)


def _refused_starts(tx: Transaction, swarm_id: str, limit: int) -> Iterator[Reason]:
    for refusal in tx.spawn_refusals(swarm_id, limit):
        task = tx.task(swarm_id, refusal.task_id)
        if task is not None and task.status == "open":
            yield from refusal_reasons(refusal, refused_by(tx, refusal))


def refused_by(tx: Transaction, refusal: SpawnRefusal) -> list[Holder]:
    """The tasks that refused the start and are still in the way, each once."""
    locked = {(lock.repo, lock.swarm_id, lock.task_id) for lock in tx.repo_locks()}
    in_the_way: dict[tuple[str, str], Holder] = {}
    for holder in refusal.holders:
        swarm_id, task_id = holder["swarm_id"], holder["bead_id"]
        task = tx.task(swarm_id, task_id)
        repo = holder.get("repo")
        is_lock = (repo, swarm_id, task_id) in locked
        if task is not None and (is_lock if repo else task.status in ("open", "queued", "active")):
            owned = f"the repo {repo}" if repo else holder["owned"]
            in_the_way[swarm_id, task_id] = Holder(swarm_id, task_id, owned, task.status, repo)
    return list(in_the_way.values())
