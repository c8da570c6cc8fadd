"""The part of the port for the board: facts about many tasks of a swarm, each kind in one query."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, Protocol

from shiftboss.protocol.states import WorkerState
from shiftboss.rules.claims.claims import Claim
from shiftboss.rules.contract.records import ContractAttempt, Halt
from shiftboss.rules.handoffs.handoffs import ScopeRequest
from shiftboss.rules.runs.records import (
    BudgetRecord,
    Hold,
    LandingRecord,
    ReviewRecord,
    SpawnRefusal,
    Totals,
)
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.tasks import Question, Task


class Dependency(NamedTuple):
    """`depends_on` is the other task, with its status."""

    task_id: str
    depends_on: str
    status: str
    in_review: bool
    is_unlanded: bool

    @property
    def is_finished(self) -> bool:
        return self.status == "done" and not self.in_review


class HandoffSummary(NamedTuple):
    """`repo` is a path or an address, `repo_name` its name in the policy."""

    repo: str
    repo_name: str | None
    model: str | None


class CiState(NamedTuple):
    """`errors` are the checks in a row that got no answer."""

    state: str
    errors: int


class WorkerRow(NamedTuple):
    """A worker with what is known about its current attempt."""

    name: str
    task_id: str | None
    last_activity_at_ms: int
    state: WorkerState | None = None
    epoch: int | None = None
    lease_expires_at_ms: int | None = None
    context_usage: float | None = None
    current_step: str | None = None
    registered_at_ms: int | None = None
    contract_version: int | None = None


class BoardTransaction(Protocol):
    """`ids` are ids of tasks of the swarm; what has no row is left out. The tasks come without
    their descriptions and checkpoints, the claims without their words."""

    def board_page(self, swarm_id: str, after: str, limit: int) -> list[Task]:
        """In the order of their ids."""
        ...

    def board_tasks(self, swarm_id: str, ids: Collection[str]) -> list[Task]: ...

    def board_packet_page(self, swarm_id: str, after: str, limit: int) -> list[Assignment]:
        """The current attempts at packets, in the order of the ids of their tasks."""
        ...

    def board_assignments(self, swarm_id: str, ids: Collection[str]) -> dict[str, Assignment]: ...

    def board_dependencies(self, swarm_id: str, ids: Collection[str]) -> list[Dependency]: ...

    def board_holds(self, swarm_id: str, ids: Collection[str]) -> list[Hold]:
        """With the id `WHOLE_SWARM`, those of the swarm as well."""
        ...

    def board_questions(self, swarm_id: str, ids: Collection[str]) -> list[Question]:
        """The open ones, the oldest first."""
        ...

    def board_scope_requests(
        self, swarm_id: str, question_ids: Collection[int]
    ) -> list[ScopeRequest]:
        """Those of open questions that wait for a decision."""
        ...

    def board_claims(self, swarm_id: str, ids: Collection[str]) -> dict[str, Claim]:
        """The last claim of each task."""
        ...

    def board_contract_attempts(
        self, swarm_id: str, ids: Collection[str]
    ) -> dict[str, ContractAttempt]: ...

    def board_halts(self, swarm_id: str) -> dict[str, Halt]:
        """The oldest halt in force for each task of the swarm whose repo is halted."""
        ...

    def board_spawn_refusals(
        self, swarm_id: str, ids: Collection[str]
    ) -> dict[str, SpawnRefusal]: ...

    def board_landings(self, swarm_id: str, ids: Collection[str]) -> dict[str, LandingRecord]: ...

    def board_reviews(self, swarm_id: str, ids: Collection[str]) -> dict[str, ReviewRecord]: ...

    def board_usage(self, swarm_id: str, ids: Collection[str]) -> dict[str, Totals]: ...

    def board_budgets(self, swarm_id: str, ids: Collection[str]) -> dict[str, BudgetRecord]: ...

    def board_ci(self, swarm_id: str, ids: Collection[str]) -> dict[str, CiState]: ...

    def board_handoffs(self, swarm_id: str, ids: Collection[str]) -> dict[str, HandoffSummary]: ...

    def board_queue(self, swarm_id: str, limit: int) -> list[str]:
        """The ids of the queued tasks that are ready, in the order in which they are handed out."""
        ...

    def board_workers(self, swarm_id: str, after: str, limit: int) -> list[WorkerRow]:
        """In the order of their names."""
        ...

    def board_unsettled_swarms(self, limit: int) -> list[str]:
        """Of the newest `limit` swarms, those that have something left to do or to decide."""
        ...
