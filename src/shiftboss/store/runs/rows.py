"""The rows of running plans: usage, budgets, holds, landings."""

from __future__ import annotations

import json

from shiftboss.protocol.claims.verdicts import RejectedWork
from shiftboss.rules.runs.records import (
    BudgetRecord,
    Hold,
    LandingRecord,
    OpenCounts,
    PlanRunRecord,
    ProcessUsage,
    ReviewRecord,
    SpawnRefusal,
    Totals,
)
from shiftboss.store.transaction_part import Row, TransactionPart


class RunRows(TransactionPart):
    """Implements `shiftboss.store.runs.port.RunTransaction`."""

    # -- usage and budgets

    def process_usage(
        self, swarm_id: str, task_id: str, epoch: int, process: int
    ) -> ProcessUsage | None:
        row = self._session.fetch_one(
            "process_usage",
            {"swarm_id": swarm_id, "task_id": task_id, "epoch": epoch, "process": process},
        )
        return None if row is None else ProcessUsage._make(row)

    def put_process_usage(self, usage: ProcessUsage) -> None:
        self._write("put_process_usage", usage._asdict())

    def usage_totals(self, swarm_id: str, task_id: str) -> Totals:
        row = self._session.fetch_one("usage_totals", {"swarm_id": swarm_id, "task_id": task_id})
        return Totals() if row is None else Totals._make(row)

    def usage_after(self, swarm_id: str, task_id: str, limit: int) -> list[tuple[str, Totals]]:
        rows = self._session.fetch_all(
            "usage_after", {"swarm_id": swarm_id, "task_id": task_id, "limit": limit}
        )
        return [(row[0], Totals._make(row[1:])) for row in rows]

    def put_usage_totals(self, swarm_id: str, task_id: str, totals: Totals) -> None:
        self._write(
            "put_usage_totals", {**totals._asdict(), "swarm_id": swarm_id, "task_id": task_id}
        )

    def budget(self, swarm_id: str, task_id: str) -> BudgetRecord | None:
        row = self._session.fetch_one("budget", {"swarm_id": swarm_id, "task_id": task_id})
        return None if row is None else to_budget(row)

    def put_budget(self, budget: BudgetRecord) -> None:
        self._write("put_budget", budget._asdict())

    # -- holds

    def holds_of_task(self, swarm_id: str, task_id: str) -> list[Hold]:
        rows = self._session.fetch_all("holds_of_task", {"swarm_id": swarm_id, "task_id": task_id})
        return [Hold._make(row) for row in rows]

    def holds_of_swarm(self, swarm_id: str, limit: int) -> list[Hold]:
        rows = self._session.fetch_all("holds_of_swarm", {"swarm_id": swarm_id, "limit": limit})
        return [Hold._make(row) for row in rows]

    def open_holds(self, swarm_id: str, limit: int) -> list[Hold]:
        rows = self._session.fetch_all("open_holds", {"swarm_id": swarm_id, "limit": limit})
        return [Hold._make(row) for row in rows]

    def put_hold(self, hold: Hold) -> None:
        self._write("put_hold", hold._asdict())

    def drop_hold(self, hold: Hold) -> bool:
        key = {"swarm_id": hold.swarm_id, "task_id": hold.task_id, "kind": hold.kind}
        return self._change("drop_hold", key) == 1

    def ended_holds(self, now_ms: int, limit: int) -> list[Hold]:
        rows = self._session.fetch_all("ended_holds", {"now_ms": now_ms, "limit": limit})
        return [Hold._make(row) for row in rows]

    def next_hold_end_at_ms(self) -> int | None:
        row = self._session.fetch_one("next_hold_end_at_ms", {})
        return None if row is None else row[0]

    # -- landings

    def landing(self, swarm_id: str, task_id: str) -> LandingRecord | None:
        row = self._session.fetch_one("landing", {"swarm_id": swarm_id, "task_id": task_id})
        return None if row is None else LandingRecord._make(row)

    def put_landing(self, landing: LandingRecord) -> None:
        self._write("put_landing", landing._asdict())

    def drop_landing(self, swarm_id: str, task_id: str) -> None:
        self._write("drop_landing", {"swarm_id": swarm_id, "task_id": task_id})

    def review(self, swarm_id: str, task_id: str) -> ReviewRecord | None:
        row = self._session.fetch_one("review", {"swarm_id": swarm_id, "task_id": task_id})
        return None if row is None else ReviewRecord._make(row)

    def put_review(self, review: ReviewRecord) -> None:
        self._write("put_review", review._asdict())

    def rejections(self, swarm_id: str, task_id: str, limit: int) -> list[RejectedWork]:
        rows = self._session.fetch_all(
            "rejections", {"swarm_id": swarm_id, "task_id": task_id, "limit": limit}
        )
        return [
            RejectedWork(commit=row[0], tree=row[1], reason=row[2], rejected_by=row[3])
            for row in rows
        ]

    def put_rejection(
        self, swarm_id: str, task_id: str, rejected: RejectedWork, at_ms: int
    ) -> None:
        self._write(
            "put_rejection",
            {
                "swarm_id": swarm_id,
                "task_id": task_id,
                "commit_sha": rejected.commit,
                "tree_sha": rejected.tree,
                "reason": rejected.reason,
                "rejected_by": rejected.rejected_by,
                "at_ms": at_ms,
            },
        )

    def landings_to_come(
        self, swarm_id: str, after: tuple[int, str], limit: int
    ) -> list[LandingRecord]:
        rows = self._session.fetch_all(
            "landings_to_come",
            {
                "swarm_id": swarm_id,
                "accepted_at_ms": after[0],
                "receipt_id": after[1],
                "limit": limit,
            },
        )
        return [LandingRecord._make(row) for row in rows]

    def landing_counts(self, swarm_id: str) -> tuple[int, int]:
        row = self._session.fetch_one("landing_counts", {"swarm_id": swarm_id})
        return (0, 0) if row is None else (row[0], row[0] - row[1])

    def open_counts(self, swarm_id: str) -> OpenCounts:
        row = self._session.fetch_one("open_counts", {"swarm_id": swarm_id})
        return OpenCounts() if row is None else OpenCounts._make(row)

    # -- plans and what they wait for

    def plan_run(self, swarm_id: str) -> PlanRunRecord | None:
        row = self._session.fetch_one("plan_run", {"swarm_id": swarm_id})
        return None if row is None else PlanRunRecord(row[0], row[1], row[2], bool(row[3]))

    def put_plan_run(self, run: PlanRunRecord) -> None:
        self._write("put_plan_run", run._asdict())

    def spawn_refusal(self, swarm_id: str, task_id: str) -> SpawnRefusal | None:
        row = self._session.fetch_one("spawn_refusal", {"swarm_id": swarm_id, "task_id": task_id})
        return None if row is None else to_spawn_refusal(row)

    def spawn_refusals(self, swarm_id: str, limit: int) -> list[SpawnRefusal]:
        rows = self._session.fetch_all("spawn_refusals", {"swarm_id": swarm_id, "limit": limit})
        return [to_spawn_refusal(row) for row in rows]

    def put_spawn_refusal(self, refusal: SpawnRefusal) -> None:
        self._write(
            "put_spawn_refusal", refusal._asdict() | {"holders": json.dumps(refusal.holders)}
        )

    def drop_spawn_refusal(self, swarm_id: str, task_id: str) -> None:
        self._write("drop_spawn_refusal", {"swarm_id": swarm_id, "task_id": task_id})


def to_budget(row: Row) -> BudgetRecord:
    return BudgetRecord._make((*row[:4], bool(row[4]), row[5]))


def to_spawn_refusal(row: Row) -> SpawnRefusal:
    return SpawnRefusal._make((*row[:4], json.loads(row[4]), row[5]))
