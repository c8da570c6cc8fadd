"""The part of the port for running plans: usage, budgets, holds, landings."""

from __future__ import annotations

from typing import Protocol

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


class RunTransaction(Protocol):
    """A task_id of `WHOLE_SWARM` means the swarm. Take the swarm before changing any of it."""

    # -- usage and budgets
    def process_usage(
        self, swarm_id: str, task_id: str, epoch: int, process: int
    ) -> ProcessUsage | None: ...

    def put_process_usage(self, usage: ProcessUsage) -> None:
        """Replaces the previous usage of the process."""
        ...

    def usage_totals(self, swarm_id: str, task_id: str) -> Totals: ...

    def usage_after(self, swarm_id: str, task_id: str, limit: int) -> list[tuple[str, Totals]]:
        """Usage per task, in the order of their ids."""
        ...

    def put_usage_totals(self, swarm_id: str, task_id: str, totals: Totals) -> None: ...

    def budget(self, swarm_id: str, task_id: str) -> BudgetRecord | None: ...

    def put_budget(self, budget: BudgetRecord) -> None: ...

    # -- holds
    def holds_of_task(self, swarm_id: str, task_id: str) -> list[Hold]:
        """Its own and those of the whole swarm, which come first."""
        ...

    def holds_of_swarm(self, swarm_id: str, limit: int) -> list[Hold]:
        """Those of the whole swarm first, then by task."""
        ...

    def open_holds(self, swarm_id: str, limit: int) -> list[Hold]:
        """Like `holds_of_swarm`, without those of tasks that are done or cancelled."""
        ...

    def put_hold(self, hold: Hold) -> None:
        """Add a hold, or replace reason and end of one of the same kind, which keeps its age."""
        ...

    def drop_hold(self, hold: Hold) -> bool:
        """False, without a change, if it is gone."""
        ...

    def ended_holds(self, now_ms: int, limit: int) -> list[Hold]:
        """Expired holds, the longest overdue first."""
        ...

    def next_hold_end_at_ms(self) -> int | None: ...

    # -- landings
    def landing(self, swarm_id: str, task_id: str) -> LandingRecord | None:
        """The landing of an accepted task; None if the task is not accepted."""
        ...

    def put_landing(self, landing: LandingRecord) -> None: ...

    def drop_landing(self, swarm_id: str, task_id: str) -> None:
        """The accepted work of the task will not land. Work that has landed stays."""
        ...

    def review(self, swarm_id: str, task_id: str) -> ReviewRecord | None: ...

    def put_review(self, review: ReviewRecord) -> None: ...

    def rejections(self, swarm_id: str, task_id: str, limit: int) -> list[RejectedWork]:
        """The newest first."""
        ...

    def put_rejection(
        self, swarm_id: str, task_id: str, rejected: RejectedWork, at_ms: int
    ) -> None: ...

    def landings_to_come(
        self, swarm_id: str, after: tuple[int, str], limit: int
    ) -> list[LandingRecord]:
        """Accepted work that has not landed, in the order of acceptance, after (accepted_at_ms,
        receipt_id)."""
        ...

    def landing_counts(self, swarm_id: str) -> tuple[int, int]:
        """How many tasks are accepted, and how many of them have landed."""
        ...

    def open_counts(self, swarm_id: str) -> OpenCounts: ...

    # -- plans and what they wait for
    def plan_run(self, swarm_id: str) -> PlanRunRecord | None: ...

    def put_plan_run(self, run: PlanRunRecord) -> None: ...

    def spawn_refusal(self, swarm_id: str, task_id: str) -> SpawnRefusal | None: ...

    def spawn_refusals(self, swarm_id: str, limit: int) -> list[SpawnRefusal]:
        """In the order of the ids of the tasks."""
        ...

    def put_spawn_refusal(self, refusal: SpawnRefusal) -> None: ...

    def drop_spawn_refusal(self, swarm_id: str, task_id: str) -> None: ...
