"""The one rule for the length of a lease: how long an attempt may be silent.

Every use case that starts or renews a lease asks this module for its end. The end is stored with
the assignment, and the lease reaper ends attempts whose lease has expired.
"""

from __future__ import annotations

from typing import Final

from shiftboss.protocol.states import WorkerState
from shiftboss.rules.tasks.packets import Assignment

# A worker must acknowledge an offered task within this time, or another worker gets it.
OFFER_SECONDS: Final = 60
# A worker without a launcher sends no heartbeats while it works.
LEASE_SECONDS: Final = 1800
# A blocked worker waits for a person.
BLOCKED_LEASE_SECONDS: Final = 86_400
# Leases that expired while no server was running are extended by this much at the start.
GRACE_SECONDS: Final = 60

OFFER_MS: Final = OFFER_SECONDS * 1000


def lease_seconds(assignment: Assignment, state: WorkerState, *, is_paused: bool = False) -> int:
    """The length of the lease that starts when `assignment` enters `state`.

    A blocked or paused attempt waits for others, so its lease is long whatever length it asked for.
    """
    if state is WorkerState.ASSIGNED:
        return OFFER_SECONDS
    if is_paused or state is WorkerState.BLOCKED:
        return BLOCKED_LEASE_SECONDS
    return assignment.lease_seconds or LEASE_SECONDS


def heartbeat_lease_seconds(assignment: Assignment) -> int:
    """The length of the lease after a heartbeat.

    A launcher that requested its own length keeps sending heartbeats while its worker is blocked,
    so that length also applies then.
    """
    if assignment.lease_seconds and assignment.state is not WorkerState.ASSIGNED:
        return assignment.lease_seconds
    return lease_seconds(assignment, assignment.state)


def lease_end_ms(
    assignment: Assignment, state: WorkerState, now_ms: int, *, is_paused: bool = False
) -> int | None:
    """The end of the lease that starts now, in `state`. A packet has no lease."""
    if assignment.packet_id is not None:
        return None
    return now_ms + lease_seconds(assignment, state, is_paused=is_paused) * 1000
