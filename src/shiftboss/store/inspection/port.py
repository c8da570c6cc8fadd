"""The part of the port that reads everything there is of a swarm, to check the invariants.

No request uses it: its cost grows with the swarm.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from shiftboss.rules.claims.claims import Claim
from shiftboss.rules.handoffs.handoffs import Reservation
from shiftboss.rules.runs.records import LandingRecord, ReviewRecord
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.tasks import Task, Worker
from shiftboss.store.handoffs.port import ReceiptRow


class QueueRow(NamedTuple):
    """How many tasks of a priority are ready, and the last number that was given to one."""

    priority: int
    ready: int
    last_number: int


class ContractRow(NamedTuple):
    """The contract in force of a task, without its text."""

    task_id: str
    version: int
    repo_id: str
    repo_name: str | None
    review: str


class EventSpan(NamedTuple):
    """How many events a swarm has, and the ids of the first and the last one."""

    total: int
    first_id: int | None
    last_id: int | None


class InspectionTransaction(Protocol):
    """Everything is ordered, so that the same store always gives the same findings."""

    def swarm_ids_after(self, swarm_id: str, limit: int) -> list[str]: ...

    def swarm_ids_of_events(self) -> list[str]:
        """Every swarm that has events, also those that have no row of their own."""
        ...

    def all_tasks(self, swarm_id: str) -> list[Task]: ...

    def all_dependencies(self, swarm_id: str) -> list[tuple[str, str]]:
        """(task, the task it depends on)."""
        ...

    def all_assignments(self, swarm_id: str) -> list[Assignment]:
        """The current attempts, of packets as well."""
        ...

    def all_workers(self, swarm_id: str) -> list[Worker]: ...

    def all_queues(self, swarm_id: str) -> list[QueueRow]: ...

    def all_totals(self, swarm_id: str) -> dict[str, int]:
        """How many tasks are over, by status, and how many are accepted, as it is kept."""
        ...

    def all_claims(self, swarm_id: str) -> list[Claim]: ...

    def all_contracts(self, swarm_id: str) -> list[ContractRow]: ...

    def all_reviews(self, swarm_id: str) -> list[ReviewRecord]: ...

    def all_open_questions(self, swarm_id: str) -> list[tuple[str, int]]:
        """(task, question)."""
        ...

    def all_landings(self, swarm_id: str) -> list[LandingRecord]: ...

    def all_holds(self, swarm_id: str) -> list[tuple[str, str]]:
        """(task, or empty for the whole swarm; kind)."""
        ...

    def attempts_after_failed_ci(self, swarm_id: str) -> list[tuple[str, int]]:
        """(task, epoch) of the attempts whose last push CI has refused."""
        ...

    def all_receipts(self, swarm_id: str) -> list[ReceiptRow]: ...

    def all_reservations(self) -> list[Reservation]:
        """Of every swarm, by repository."""
        ...

    def open_retry_counts(self, swarm_id: str) -> dict[str, int]:
        """How many retries of a packet are scheduled or due, by its task id."""
        ...

    def event_span(self, swarm_id: str) -> EventSpan: ...
