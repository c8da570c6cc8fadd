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


class TracedSwarm(NamedTuple):
    """Up to which of its events the spans of a swarm were exported. None: it was never traced."""

    swarm_id: str
    traced_until: int | None
    last_event_id: int


class MonitoringTransaction(Protocol):
    def live_counts(self, now_ms: int) -> LiveCounts: ...

    def traced_swarms(self, limit: int) -> list[TracedSwarm]:
        """The newest swarms with events, up to a limit. One look-up for each: for the start."""
        ...

    def begin_traces(self, now_ms: int) -> bool:
        """False if they had begun before."""
        ...

    def traced_until(self, swarm_id: str) -> int | None: ...

    def put_traced_until(self, swarm_id: str, event_id: int) -> None: ...
