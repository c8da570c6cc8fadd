"""The facts about many tasks of a swarm, from which the rules say where each is and why.

`why_task` reads the same facts about one task, with a query for each. Here every kind of fact is
one query for all tasks, and is asked for those tasks only whose status can have it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from pydantic import TypeAdapter

from shiftboss.coordinator.claims.claim_passes import living_verifiers
from shiftboss.coordinator.swarms.overview import live_workers, refused_by
from shiftboss.protocol.contract.milestones import MilestoneReport, milestone_of_report, progress_of
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.claims.claims import Claim, ClaimPass
from shiftboss.rules.contract.milestones import milestone_view
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
    return _FactsReader(tx, swarm_id, tasks, polling, now_ms).facts() if tasks else []


class _FactsReader:
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
        every = [task.task_id for task in tasks]
        self._read_waits(every)
        self._read_work(every)

    def _ids(self, *statuses: str, contract: bool = False) -> list[str]:
        return [
            task.task_id
            for task in self._tasks
            if task.status in statuses and not (contract and task.contract_version is None)
        ]

    def facts(self) -> list[BoardFacts]:
        return [
            BoardFacts(
                self._situation(task),
                [each.depends_on for each in self._dependencies.get(task.task_id, ())],
                self._attempts.get(task.task_id),
                self._ci.get(task.task_id),
                self._used.get(task.task_id),
                self._budgets.get(task.task_id),
                self._handoffs.get(task.task_id),
            )
            for task in self._tasks
        ]

    def _read_waits(self, every: Sequence[str]) -> None:
        """The obstacles to starting or continuing a task."""
        tx, swarm_id = self._tx, self._swarm_id
        unended = self._ids("open", "queued", "active", "failed")
        self._dependencies = _by_task(tx.board_dependencies(swarm_id, every))
        self._others = self._unfinished(self._dependencies.values())
        self._positions = self._queue_positions()
        self._refusals = tx.board_spawn_refusals(swarm_id, self._ids("open"))
        self._holds = _by_task(tx.board_holds(swarm_id, [WHOLE_SWARM, *unended]))
        self._halts = tx.board_halts(swarm_id)
        self._questions = _by_task(tx.board_questions(swarm_id, every))
        question_ids = [each.question_id for group in self._questions.values() for each in group]
        self._scope_requests = _by_task(tx.board_scope_requests(swarm_id, question_ids))

    def _read_work(self, every: Sequence[str]) -> None:
        """The work, its cost, and its outcome."""
        tx, swarm_id = self._tx, self._swarm_id
        under_contract = self._ids("active", "failed", contract=True)
        done = self._ids("done")
        self._assignments = tx.board_assignments(swarm_id, self._ids("active"))
        self._attempts = tx.board_contract_attempts(swarm_id, under_contract)
        self._claims = tx.board_claims(swarm_id, under_contract)
        self._verifiers = living_verifiers(tx, self._now_ms) if self._claims else {}
        self._ci = tx.board_ci(swarm_id, under_contract)
        self._landings = tx.board_landings(swarm_id, done)
        self._reviews = tx.board_reviews(swarm_id, done)
        self._used = tx.board_usage(swarm_id, [WHOLE_SWARM, *every])
        self._budgets = tx.board_budgets(swarm_id, [WHOLE_SWARM, *every])
        self._handoffs = tx.board_handoffs(swarm_id, every)

    def _situation(self, task: Task) -> TaskSituation:
        task_id = task.task_id
        claim, refusal = self._claims.get(task_id), self._refusals.get(task_id)
        attempt = self._attempts.get(task_id)
        holds = [*self._holds.get(WHOLE_SWARM, ()), *self._holds.get(task_id, ())]
        owners = {hold.task_id for hold in holds}
        waits = self._dependencies.get(task_id, ())
        return TaskSituation(
            task=task,
            run=self._run,
            is_offline=self._polling is None,
            assignment=self._assignments.get(task_id),
            dependencies=[self._others[each.depends_on] for each in waits if not each.is_finished],
            unlanded=self._unlanded(waits),
            workers=self._workers,
            queue_position=self._positions.get(task_id, 0),
            holds=holds,
            budgets=_of_owners(self._budgets, owners),
            used=_of_owners(self._used, owners),
            questions=self._questions.get(task_id, ()),
            scope_requests=self._scope_requests.get(task_id, ()),
            claim=claim,
            passes=self._passes(claim),
            verifiers=self._verifiers,
            now_ms=self._now_ms,
            violations=claim.violations if claim else (),
            halt=self._halts.get(task_id),
            paused=attempt.paused if attempt else None,
            refusal=refusal,
            holders=refused_by(self._tx, refusal) if refusal else (),
            landing=self._landings.get(task_id),
            review=self._reviews.get(task_id),
        )

    def _passes(self, claim: Claim | None) -> Sequence[ClaimPass]:
        """Those on a claim that is still open."""
        if claim is None or claim.ended_at_ms is not None:
            return ()
        return self._tx.claim_passes(claim)

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


class _OfTask(Protocol):
    @property
    def task_id(self) -> str: ...


R = TypeVar("R", bound=_OfTask)


def _by_task(rows: Iterable[R]) -> dict[str, list[R]]:
    groups: dict[str, list[R]] = defaultdict(list)
    for row in rows:
        groups[row.task_id].append(row)
    return groups


def _of_owners(rows: Mapping[str, T], owners: Iterable[str]) -> dict[str, T]:
    return {owner: rows[owner] for owner in owners if owner in rows}


_REPORT: Final = TypeAdapter[MilestoneReport](MilestoneReport)


class MilestoneFacts(NamedTuple):
    milestone: str | None = None
    substate: str | None = None
    progress: str | None = None


def milestone_facts(
    state: WorkerState | None, epoch: int, attempt: ContractAttempt | None
) -> MilestoneFacts:
    """A report counts as long as its milestone does."""
    if state is None or attempt is None or attempt.epoch != epoch:
        return MilestoneFacts()
    milestone = milestone_view(state, ci_failed=attempt.ci_failed)
    report = _report(attempt.progress)
    if report is None or milestone_of_report(report) != milestone:
        return MilestoneFacts(milestone)
    return MilestoneFacts(milestone, getattr(report, "substate", None), progress_of(report))


def _report(stored: str | None) -> MilestoneReport | None:
    """The report without what it returned with it. After a failed CI run there is none: the names
    of its jobs are stored in its place."""
    report: dict[str, Any] = json.loads(stored) if stored else {}
    report.pop("returns", None)
    return _REPORT.validate_python(report) if "milestone" in report else None
