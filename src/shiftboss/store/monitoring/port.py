"""The part of the port that counts what is there now, for metrics.

No cost grows with history: every count reads an index of what is open, or the newest swarms, up to
a limit.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol


class LiveCounts(NamedTuple):
    """What is open in the database, over all swarms. `tasks` are those of swarms that are not
    complete, by status; `ready_tasks` could be handed out now. `waiting_for_person` is by kind. The
    age is that of the oldest claim without a verdict, 0 without one."""

    tasks: dict[str, int]
    ready_tasks: int
    open_swarms: int
    live_leases: int
    expired_leases: int
    open_claims: int
    oldest_claim_age_ms: int
    pending_ci: int
    waiting_for_person: dict[str, int]


class MonitoringTransaction(Protocol):
    def live_counts(self, now_ms: int) -> LiveCounts: ...
