"""The rows of an inspection: everything there is of a swarm."""

from __future__ import annotations

import json

from shiftboss.rules.claims.claims import Claim
from shiftboss.rules.handoffs.handoffs import Reservation
from shiftboss.rules.runs.records import LandingRecord, ReviewRecord
from shiftboss.rules.tasks.tasks import Task, Worker
from shiftboss.store.handoffs.port import ReceiptRow
from shiftboss.store.inspection.port import ContractRow, EventSpan, QueueRow
from shiftboss.store.transaction_part import Row, TransactionPart


class InspectionRows(TransactionPart):
    """Implements `shiftboss.store.inspection.port.InspectionTransaction`, but for assignments,
    which `SqlTransaction` knows how to read."""

    def swarm_ids_after(self, swarm_id: str, limit: int) -> list[str]:
        rows = self._session.fetch_all("swarm_ids_after", {"swarm_id": swarm_id, "limit": limit})
        return [row[0] for row in rows]

    def swarm_ids_of_events(self) -> list[str]:
        return [row[0] for row in self._session.fetch_all("swarm_ids_of_events", {})]

    def all_tasks(self, swarm_id: str) -> list[Task]:
        return [Task._make(row) for row in self._of_swarm("all_tasks", swarm_id)]

    def all_dependencies(self, swarm_id: str) -> list[tuple[str, str]]:
        return [(row[0], row[1]) for row in self._of_swarm("all_dependencies", swarm_id)]

    def all_workers(self, swarm_id: str) -> list[Worker]:
        rows = self._of_swarm("all_workers", swarm_id)
        return [Worker._make((*row[:3], bool(row[3]), *row[4:])) for row in rows]

    def all_totals(self, swarm_id: str) -> dict[str, int]:
        return {row[0]: row[1] for row in self._of_swarm("all_totals", swarm_id)}

    def all_queues(self, swarm_id: str) -> list[QueueRow]:
        return [QueueRow._make(row) for row in self._of_swarm("all_queues", swarm_id)]

    def all_claims(self, swarm_id: str) -> list[Claim]:
        return [Claim._make(row) for row in self._of_swarm("all_claims", swarm_id)]

    def all_contracts(self, swarm_id: str) -> list[ContractRow]:
        return [ContractRow._make(row) for row in self._of_swarm("all_contracts", swarm_id)]

    def all_reviews(self, swarm_id: str) -> list[ReviewRecord]:
        return [ReviewRecord._make(row) for row in self._of_swarm("all_reviews", swarm_id)]

    def all_open_questions(self, swarm_id: str) -> list[tuple[str, int]]:
        return [(row[0], row[1]) for row in self._of_swarm("all_open_questions", swarm_id)]

    def all_landings(self, swarm_id: str) -> list[LandingRecord]:
        return [LandingRecord._make(row) for row in self._of_swarm("all_landings", swarm_id)]

    def all_holds(self, swarm_id: str) -> list[tuple[str, str]]:
        return [(row[0], row[1]) for row in self._of_swarm("all_holds", swarm_id)]

    def attempts_after_failed_ci(self, swarm_id: str) -> list[tuple[str, int]]:
        rows = self._session.fetch_all(
            "attempts_after_failed_ci", {"swarm_id": swarm_id, "failed": True}
        )
        return [(row[0], row[1]) for row in rows]

    def all_receipts(self, swarm_id: str) -> list[ReceiptRow]:
        rows = self._of_swarm("all_receipts", swarm_id)
        return [ReceiptRow._make((*row[:-1], bool(row[-1]))) for row in rows]

    def all_reservations(self) -> list[Reservation]:
        rows = self._session.fetch_all("all_reservations", {})
        return [Reservation(row[0], row[1], row[2], json.loads(row[3])) for row in rows]

    def open_retry_counts(self, swarm_id: str) -> dict[str, int]:
        return {row[0]: row[1] for row in self._of_swarm("open_retry_counts", swarm_id)}

    def event_span(self, swarm_id: str) -> EventSpan:
        row = self._session.fetch_one("event_span", {"swarm_id": swarm_id})
        assert row is not None, "a count has a row"
        return EventSpan._make(row)

    def _of_swarm(self, query: str, swarm_id: str) -> list[Row]:
        return self._session.fetch_all(query, {"swarm_id": swarm_id})
