"""The part of the store's port that a running plan needs: usage, budgets, holds, landings."""

from __future__ import annotations

from typing import Protocol

from shiftboss.rules.runs.records import BudgetRecord, Hold, LandingRecord, ProcessUsage, Totals


class RunTransaction(Protocol):
    """A task_id of `WHOLE_SWARM` means the swarm. It is taken before any of it is changed."""

    # -- usage and budgets
    def process_usage(
        self, swarm_id: str, task_id: str, epoch: int, process: int
    ) -> ProcessUsage | None: ...

    def put_process_usage(self, usage: ProcessUsage) -> None:
        """Replaces what was said of the process before."""
        ...

    def usage_totals(self, swarm_id: str, task_id: str) -> Totals: ...

    def usage_after(self, swarm_id: str, task_id: str, limit: int) -> list[tuple[str, Totals]]:
        """Of the tasks that something is known of, in the order of their ids."""
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

    def put_hold(self, hold: Hold) -> None:
        """Replaces reason and end of one of the same kind; it is as old as it was."""
        ...

    def drop_hold(self, hold: Hold) -> bool:
        """False, and no change, when it is gone."""
        ...

    def ended_holds(self, now_ms: int, limit: int) -> list[Hold]:
        """Those whose time is over, the longest overdue first."""
        ...

    def next_hold_end_at_ms(self) -> int | None: ...

    # -- landings
    def landing(self, swarm_id: str, task_id: str) -> LandingRecord | None:
        """Of an accepted task; None: it is not accepted."""
        ...

    def put_landing(self, landing: LandingRecord) -> None: ...

    def landings_to_come(
        self, swarm_id: str, after: tuple[int, str], limit: int
    ) -> list[LandingRecord]:
        """What is accepted and has not landed, in the order of the acceptance, behind
        (accepted_at_ms, receipt_id)."""
        ...
