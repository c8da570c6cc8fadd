"""The rows of the board."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable

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
from shiftboss.store.board.port import CiState, Dependency, HandoffSummary, WorkerRow
from shiftboss.store.contract.rows import to_contract_attempt, to_halt
from shiftboss.store.handoffs.rows import to_scope_request
from shiftboss.store.runs.rows import to_budget, to_spawn_refusal
from shiftboss.store.transaction_part import Row, TransactionPart, to_assignment


class BoardRows(TransactionPart):
    """Implements `shiftboss.store.board.port.BoardTransaction`."""

    def board_page(self, swarm_id: str, after: str, limit: int) -> list[Task]:
        parameters = {"swarm_id": swarm_id, "after": after, "limit": limit}
        return [Task._make(row) for row in self._session.fetch_all("board_page", parameters)]

    def board_tasks(self, swarm_id: str, ids: Collection[str]) -> list[Task]:
        return [Task._make(row) for row in self._of_tasks("board_tasks", swarm_id, ids)]

    def board_packet_page(self, swarm_id: str, after: str, limit: int) -> list[Assignment]:
        parameters = {"swarm_id": swarm_id, "after": after, "limit": limit}
        rows = self._session.fetch_all("board_packet_page", parameters)
        return [to_assignment(row) for row in rows]

    def board_assignments(self, swarm_id: str, ids: Collection[str]) -> dict[str, Assignment]:
        rows = self._of_tasks("board_assignments", swarm_id, ids)
        return {row[1]: to_assignment(row) for row in rows}

    def board_dependencies(self, swarm_id: str, ids: Collection[str]) -> list[Dependency]:
        rows = self._of_tasks("board_dependencies", swarm_id, ids)
        return [Dependency(row[0], row[1], row[2], bool(row[3]), bool(row[4])) for row in rows]

    def board_holds(self, swarm_id: str, ids: Collection[str]) -> list[Hold]:
        return [Hold._make(row) for row in self._of_tasks("board_holds", swarm_id, ids)]

    def board_questions(self, swarm_id: str, ids: Collection[str]) -> list[Question]:
        return [Question._make(row) for row in self._of_tasks("board_questions", swarm_id, ids)]

    def board_scope_requests(
        self, swarm_id: str, question_ids: Collection[int]
    ) -> list[ScopeRequest]:
        if not question_ids:
            return []
        parameters = {"swarm_id": swarm_id, "questions": _members(map(str, question_ids))}
        rows = self._session.fetch_all("board_scope_requests", parameters)
        return [to_scope_request(row) for row in rows]

    def board_claims(self, swarm_id: str, ids: Collection[str]) -> dict[str, Claim]:
        rows = self._of_tasks("board_claims", swarm_id, ids)
        return {row[1]: Claim._make(row) for row in rows}

    def board_contract_attempts(
        self, swarm_id: str, ids: Collection[str]
    ) -> dict[str, ContractAttempt]:
        rows = self._of_tasks("board_contract_attempts", swarm_id, ids)
        return {row[1]: to_contract_attempt(row) for row in rows}

    def board_halts(self, swarm_id: str) -> dict[str, Halt]:
        rows = self._session.fetch_all("board_halts", {"swarm_id": swarm_id})
        return {row[0]: to_halt(row[1:]) for row in reversed(rows)}

    def board_spawn_refusals(self, swarm_id: str, ids: Collection[str]) -> dict[str, SpawnRefusal]:
        rows = self._of_tasks("board_spawn_refusals", swarm_id, ids)
        return {row[1]: to_spawn_refusal(row) for row in rows}

    def board_landings(self, swarm_id: str, ids: Collection[str]) -> dict[str, LandingRecord]:
        rows = self._of_tasks("board_landings", swarm_id, ids)
        return {row[1]: LandingRecord._make(row) for row in rows}

    def board_reviews(self, swarm_id: str, ids: Collection[str]) -> dict[str, ReviewRecord]:
        rows = self._of_tasks("board_reviews", swarm_id, ids)
        return {row[1]: ReviewRecord._make(row) for row in rows}

    def board_usage(self, swarm_id: str, ids: Collection[str]) -> dict[str, Totals]:
        rows = self._of_tasks("board_usage", swarm_id, ids)
        return {row[0]: Totals._make(row[1:]) for row in rows}

    def board_budgets(self, swarm_id: str, ids: Collection[str]) -> dict[str, BudgetRecord]:
        rows = self._of_tasks("board_budgets", swarm_id, ids)
        return {row[1]: to_budget(row) for row in rows}

    def board_ci(self, swarm_id: str, ids: Collection[str]) -> dict[str, CiState]:
        rows = self._of_tasks("board_ci", swarm_id, ids)
        return {row[0]: CiState._make(row[1:]) for row in rows}

    def board_handoffs(self, swarm_id: str, ids: Collection[str]) -> dict[str, HandoffSummary]:
        rows = self._of_tasks("board_handoffs", swarm_id, ids)
        return {row[0]: HandoffSummary._make(row[1:]) for row in rows}

    def board_queue(self, swarm_id: str, limit: int) -> list[str]:
        rows = self._session.fetch_all("board_queue", {"swarm_id": swarm_id, "limit": limit})
        return [row[0] for row in rows]

    def board_workers(self, swarm_id: str, after: str, limit: int) -> list[WorkerRow]:
        parameters = {"swarm_id": swarm_id, "after": after, "limit": limit}
        return [_worker(row) for row in self._session.fetch_all("board_workers", parameters)]

    def board_unsettled_swarms(self, limit: int) -> list[str]:
        rows = self._session.fetch_all("board_unsettled_swarms", {"limit": limit})
        return [row[0] for row in rows]

    def _of_tasks(self, query: str, swarm_id: str, ids: Collection[str]) -> list[Row]:
        if not ids:
            return []
        return self._session.fetch_all(query, {"swarm_id": swarm_id, "ids": _members(ids)})


def _members(names: Iterable[str]) -> str:
    return json.dumps(dict.fromkeys(names, 0))


def _worker(row: Row) -> WorkerRow:
    state = None if row[3] is None else WorkerState(row[3])
    return WorkerRow._make((*row[:3], state, *row[4:]))
