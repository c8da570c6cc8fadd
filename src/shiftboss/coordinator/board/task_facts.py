"""The facts about many tasks of a swarm, from which the rules say where each is and why.

`why_task` reads the same facts about one task, with a query for each. Here every kind of fact is
one query for all tasks, and is asked for those tasks only whose status can have it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from shiftboss.coordinator.claims.passing import living_verifiers
from shiftboss.coordinator.swarms.overview import live_workers, refused_by
from shiftboss.rules.contract.records import ContractAttempt
from shiftboss.rules.runs.records import WHOLE_SWARM, BudgetRecord, PlanRunRecord, Totals
from shiftboss.rules.tasks.reasons import TaskSituation
from shiftboss.rules.tasks.tasks import Task
from shiftboss.store.board.port import CiState, Dependency, HandoffSummary
from shiftboss.store.port import Transaction

T = TypeVar("T")

QUEUE_READ_MAX = 10_000
QUEUE_COUNTED_MAX = 5


class BoardFacts(NamedTuple):
    """`facts` lack who owns the files of a failed task by now, which `why_task` tells."""

    facts: TaskSituation
    depends_on: Sequence[str] = ()
    attempt: ContractAttempt | None = None
    ci: CiState | None = None
    used: Totals | None = None
    budget: BudgetRecord | None = None
    handoff: HandoffSummary | None = None


def read_facts(
    tx: Transaction,
    swarm_id: str,
    tasks: Sequence[Task],
    polling: frozenset[str] | None,
    now_ms: int,
) -> list[BoardFacts]:
    """In the order of the tasks. `polling` are the workers of the swarm that wait for a task; None
    without a server."""
    return _Reader(tx, swarm_id, tasks, polling, now_ms).facts() if tasks else []


class _Reader:
    def __init__(
        self,
        tx: Transaction,
        swarm_id: str,
        tasks: Sequence[Task],
        polling: frozenset[str] | None,
        now_ms: int,
    ) -> None:
        self._tx = tx
        self._swarm_id = swarm_id
        self._tasks = tasks
        self._polling = polling
        self._now_ms = now_ms
        self._run: PlanRunRecord | None = tx.plan_run(swarm_id)
        self._workers = live_workers(tx, swarm_id, polling)

    def _ids(self, *statuses: str, contract: bool = False) -> list[str]:
        return [
            task.task_id
            for task in self._tasks
            if task.status in statuses and not (contract and task.contract_version is None)
        ]

    def facts(self) -> list[BoardFacts]:
        tx, swarm_id = self._tx, self._swarm_id
        every = [task.task_id for task in self._tasks]
        unended = self._ids("open", "queued", "active", "failed")
        under_contract = self._ids("active", "failed", contract=True)
        dependencies = _grouped(tx.board_dependencies(swarm_id, every), lambda each: each.task_id)
        assignments = tx.board_assignments(swarm_id, self._ids("active"))
        holds = _grouped(
            tx.board_holds(swarm_id, [WHOLE_SWARM, *unended]), lambda hold: hold.task_id
        )
        questions = _grouped(tx.board_questions(swarm_id, every), lambda each: each.task_id)
        question_ids = [each.question_id for group in questions.values() for each in group]
        scope_requests = _grouped(
            tx.board_scope_requests(swarm_id, question_ids), lambda each: each.task_id
        )
        claims = tx.board_claims(swarm_id, under_contract)
        attempts = tx.board_contract_attempts(swarm_id, under_contract)
        halts = tx.board_halts(swarm_id)
        refusals = tx.board_spawn_refusals(swarm_id, self._ids("open"))
        landings = tx.board_landings(swarm_id, self._ids("done"))
        reviews = tx.board_reviews(swarm_id, self._ids("done"))
        used = tx.board_usage(swarm_id, [WHOLE_SWARM, *every])
        budgets = tx.board_budgets(swarm_id, [WHOLE_SWARM, *every])
        ci = tx.board_ci(swarm_id, under_contract)
        handoffs = tx.board_handoffs(swarm_id, every)
        positions = self._queue_positions()
        others = self._unfinished(dependencies.values())
        verifiers = living_verifiers(tx, self._now_ms) if claims else {}

        def facts_of(task: Task) -> TaskSituation:
            task_id = task.task_id
            claim, refusal = claims.get(task_id), refusals.get(task_id)
            attempt = attempts.get(task_id)
            held_back = [*holds.get(WHOLE_SWARM, ()), *holds.get(task_id, ())]
            owners = {hold.task_id for hold in held_back}
            is_open = claim is not None and claim.ended_at_ms is None
            waits = dependencies.get(task_id, ())
            return TaskSituation(
                task=task,
                run=self._run,
                is_offline=self._polling is None,
                assignment=assignments.get(task_id),
                dependencies=[others[each.depends_on] for each in waits if not each.is_finished],
                unlanded=self._unlanded(waits),
                workers=self._workers,
                queue_position=positions.get(task_id, 0),
                holds=held_back,
                budgets={owner: budgets[owner] for owner in owners if owner in budgets},
                used={owner: used[owner] for owner in owners if owner in used},
                questions=questions.get(task_id, ()),
                scope_requests=scope_requests.get(task_id, ()),
                claim=claim,
                passes=tx.claim_passes(claim) if claim is not None and is_open else (),
                verifiers=verifiers,
                now_ms=self._now_ms,
                violations=claim.violations if claim else (),
                halt=halts.get(task_id),
                paused=attempt.paused if attempt else None,
                refusal=refusal,
                holders=refused_by(tx, refusal) if refusal else (),
                landing=landings.get(task_id),
                review=reviews.get(task_id),
            )

        return [
            BoardFacts(
                facts_of(task),
                [each.depends_on for each in dependencies.get(task.task_id, ())],
                attempts.get(task.task_id),
                ci.get(task.task_id),
                used.get(task.task_id),
                budgets.get(task.task_id),
                handoffs.get(task.task_id),
            )
            for task in self._tasks
        ]

    def _unlanded(self, dependencies: Iterable[Dependency]) -> list[str]:
        """A plan that lands its work starts a task when its dependencies have landed."""
        if self._run is None or not self._run.auto_merge:
            return []
        return [each.depends_on for each in dependencies if each.is_finished and each.is_unlanded]

    def _unfinished(self, groups: Iterable[Sequence[Dependency]]) -> dict[str, Task]:
        ids = {each.depends_on for group in groups for each in group if not each.is_finished}
        known = {task.task_id: task for task in self._tasks if task.task_id in ids}
        missing = self._tx.board_tasks(self._swarm_id, ids - known.keys())
        return known | {task.task_id: task for task in missing}

    def _queue_positions(self) -> dict[str, int]:
        """Those of a few tasks are counted, those of many are read in one go."""
        tx, swarm_id = self._tx, self._swarm_id
        queued = [task for task in self._tasks if task.status == "queued" and not task.waits_for]
        if len(queued) <= QUEUE_COUNTED_MAX:
            return {task.task_id: tx.queue_position(task) for task in queued}
        order = tx.board_queue(swarm_id, QUEUE_READ_MAX)
        positions = {task_id: position for position, task_id in enumerate(order, 1)}
        return {task.task_id: positions.get(task.task_id, QUEUE_READ_MAX) for task in queued}


def _grouped(rows: Iterable[T], key: Callable[[T], str]) -> dict[str, list[T]]:
    groups: dict[str, list[T]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return groups
