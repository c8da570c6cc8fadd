"""Deletes what is old: finished tasks with all that belongs to them, and events."""

from __future__ import annotations

from typing import Final

from shiftboss.store.transaction_part import TransactionPart

# Every table whose rows belong to one task; its own row comes last.
TABLES_OF_TASKS: Final = (
    "task_dependencies",
    "assignments",
    "retries",
    "questions",
    "salvage",
    "handoffs",
    "held_out_tests",
    "claims",
    "reservations",
    "scope_requests",
    "waivers",
    "contract_attempts",
    "ci_tracking",
    "checkpoints",
    "process_usage",
    "usage_totals",
    "budgets",
    "holds",
    "landings",
    "spawn_refusals",
    "reviews",
    "rejections",
)
_QUERIES: Final = (
    *(
        f"delete_{table}" if table.startswith("task_") else f"delete_task_{table}"
        for table in TABLES_OF_TASKS
    ),
    "delete_task",
)


class CleaningRows(TransactionPart):
    def delete_task(self, swarm_id: str, task_id: str) -> None:
        for query in _QUERIES:
            self._write(query, {"swarm_id": swarm_id, "task_id": task_id})

    def prune_events(self, swarm_id: str, before_ms: int, limit: int) -> int:
        return self._write(
            "prune_events", {"swarm_id": swarm_id, "before_ms": before_ms, "limit": limit}
        )
