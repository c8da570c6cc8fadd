"""The rows that the invariants are about, read through the port, and how a broken one is
reported."""

from __future__ import annotations

from typing import NamedTuple

from shiftboss.rules.claims.claims import Claim
from shiftboss.rules.contract.records import RepoLock
from shiftboss.rules.handoffs.handoffs import Reservation
from shiftboss.rules.runs.records import LandingRecord, ReviewRecord
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.swarms import Swarm
from shiftboss.rules.tasks.tasks import Task, Worker
from shiftboss.store.handoffs.port import ReceiptRow
from shiftboss.store.inspection.port import ContractRow, EventSpan, QueueRow
from shiftboss.store.port import Transaction

SWARMS_PER_PAGE = 500


class BrokenInvariant(NamedTuple):
    """`subject` names the row, `command` helps, if a command can."""

    invariant: str
    swarm_id: str
    subject: str
    detail: str
    command: str | None = None

    def __str__(self) -> str:
        return f"{self.invariant}: {self.subject} of {self.swarm_id}: {self.detail}"


class SwarmFacts(NamedTuple):
    swarm: Swarm
    tasks: dict[str, Task]
    depends_on: dict[str, list[str]]
    assignments: dict[str, Assignment]
    workers: dict[str, Worker]
    queues: dict[int, QueueRow]
    # How many tasks are over, by status, and how many are accepted, as the store keeps it.
    totals: dict[str, int]
    claims: dict[str, list[Claim]]
    contracts: dict[str, ContractRow]
    reviews: dict[str, ReviewRecord]
    receipts: dict[str, list[ReceiptRow]]
    retries_open: dict[str, int]
    events: EventSpan
    open_questions: dict[str, set[int]]
    landings: dict[str, LandingRecord]
    # (task or whole swarm, kind)
    holds: set[tuple[str, str]]
    # (task, epoch)
    after_failed_ci: set[tuple[str, int]]

    def broken(
        self, invariant: str, subject: str, detail: str, command: str | None = None
    ) -> BrokenInvariant:
        return BrokenInvariant(invariant, self.swarm.swarm_id, subject, detail, command)

    def retry_command(self, task_id: str) -> str:
        return f"shiftboss task retry {task_id} --swarm {self.swarm.swarm_id}"


class StoreFacts(NamedTuple):
    """Facts of no single swarm."""

    swarm_ids: list[str]
    swarm_ids_of_events: list[str]
    repo_locks: list[RepoLock]
    reservations: list[Reservation]


def read_swarm(tx: Transaction, swarm_id: str) -> SwarmFacts | None:
    swarm = tx.swarm(swarm_id)
    if swarm is None:
        return None
    depends_on: dict[str, list[str]] = {}
    for task_id, dependency in tx.all_dependencies(swarm_id):
        depends_on.setdefault(task_id, []).append(dependency)
    claims: dict[str, list[Claim]] = {}
    for claim in tx.all_claims(swarm_id):
        claims.setdefault(claim.task_id, []).append(claim)
    receipts: dict[str, list[ReceiptRow]] = {}
    for receipt in tx.all_receipts(swarm_id):
        receipts.setdefault(receipt.task_id, []).append(receipt)
    open_questions: dict[str, set[int]] = {}
    for task_id, question_id in tx.all_open_questions(swarm_id):
        open_questions.setdefault(task_id, set()).add(question_id)
    return SwarmFacts(
        swarm=swarm,
        tasks={task.task_id: task for task in tx.all_tasks(swarm_id)},
        depends_on=depends_on,
        assignments={held.task_id: held for held in tx.all_assignments(swarm_id)},
        workers={worker.name: worker for worker in tx.all_workers(swarm_id)},
        queues={queue.priority: queue for queue in tx.all_queues(swarm_id)},
        totals=tx.all_totals(swarm_id),
        claims=claims,
        contracts={contract.task_id: contract for contract in tx.all_contracts(swarm_id)},
        reviews={review.task_id: review for review in tx.all_reviews(swarm_id)},
        receipts=receipts,
        retries_open=tx.open_retry_counts(swarm_id),
        events=tx.event_span(swarm_id),
        open_questions=open_questions,
        landings={landing.task_id: landing for landing in tx.all_landings(swarm_id)},
        holds=set(tx.all_holds(swarm_id)),
        after_failed_ci=set(tx.attempts_after_failed_ci(swarm_id)),
    )


def read_store(tx: Transaction) -> StoreFacts:
    return StoreFacts(
        swarm_ids=all_swarm_ids(tx),
        swarm_ids_of_events=tx.swarm_ids_of_events(),
        repo_locks=tx.repo_locks(),
        reservations=tx.all_reservations(),
    )


def all_swarm_ids(tx: Transaction) -> list[str]:
    swarm_ids: list[str] = []
    while page := tx.swarm_ids_after(swarm_ids[-1] if swarm_ids else "", SWARMS_PER_PAGE):
        swarm_ids += page
    return swarm_ids
