"""Deletes what is old: finished tasks with all that belongs to them, and events."""

from __future__ import annotations

from typing import Final

from shiftboss.store.contract.rows import PUSHES_MAX
from shiftboss.store.transaction_part import TransactionPart

# Of each strategy: more than are ever shown.
SIGNALS_KEPT: Final = 100

# Every table whose rows belong to one task, and how these are deleted.
TABLES_OF_TASKS: Final = {
    "task_dependencies": "delete_task_dependencies",
    "assignments": "delete_task_assignments",
    "retries": "delete_task_retries",
    "questions": "delete_task_questions",
    "salvage": "delete_task_salvage",
    "handoffs": "delete_task_handoffs",
    "held_out_tests": "delete_task_held_out_tests",
    "claims": "delete_task_claims",
    "claim_passes": "delete_task_claim_passes",
    "reservations": "delete_task_reservations",
    "scope_requests": "delete_task_scope_requests",
    "waivers": "delete_task_waivers",
    "contract_attempts": "delete_task_contract_attempts",
    "ci_tracking": "delete_task_ci_tracking",
    "checkpoints": "delete_task_checkpoints",
    "process_usage": "delete_task_process_usage",
    "usage_totals": "delete_task_usage_totals",
    "budgets": "delete_task_budgets",
    "holds": "delete_task_holds",
    "landings": "delete_task_landings",
    "spawn_refusals": "delete_task_spawn_refusals",
    "reviews": "delete_task_reviews",
    "rejections": "delete_task_rejections",
    "tokens": "delete_task_tokens",
}


class CleaningRows(TransactionPart):
    def delete_task(self, swarm_id: str, task_id: str) -> None:
        key = {"swarm_id": swarm_id, "task_id": task_id}
        deleted = {table: self._change(query, key) for table, query in TABLES_OF_TASKS.items()}
        self._write("delete_task", key)
        if deleted["tokens"]:
            self._session.announce_settings()

    def delete_worker(self, swarm_id: str, name: str) -> None:
        self._write("delete_worker", {"swarm_id": swarm_id, "name": name})

    def prune_records(self, before_ms: int, limit: int) -> int:
        old: dict[str, object] = {"before_ms": before_ms, "limit": limit}
        signals = old | {"kept": SIGNALS_KEPT}
        strategies = [row[0] for row in self._session.fetch_all("strategies", {})]
        pruned = [
            self._change("prune_signals", signals | {"strategy": name}) for name in strategies
        ]
        pruned.append(self._change("prune_notifications", old))
        return max([self._change("prune_pushes", old | {"kept": PUSHES_MAX}), *pruned])

    def prune_events(self, swarm_id: str, before_ms: int, limit: int) -> int:
        return self._change(
            "prune_events", {"swarm_id": swarm_id, "before_ms": before_ms, "limit": limit}
        )
