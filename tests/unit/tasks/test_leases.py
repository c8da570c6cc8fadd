"""The length of a lease, in every state and with every requested length."""

from __future__ import annotations

import pytest

from shiftboss.protocol.states import WorkerState
from shiftboss.rules.tasks.leases import (
    BLOCKED_LEASE_SECONDS,
    LEASE_SECONDS,
    OFFER_SECONDS,
    heartbeat_lease_seconds,
    lease_end_ms,
    lease_seconds,
)
from tests.conformance.store.rows import assignment

ATTEMPT = assignment()._replace(task_id="task-1", packet_id=None)
AT_WORK = [WorkerState.EXECUTING, WorkerState.VERIFYING, WorkerState.SELF_REVIEW]


@pytest.mark.parametrize("state", AT_WORK)
def test_a_worker_without_a_launcher_has_the_default_lease(state: WorkerState) -> None:
    assert lease_seconds(ATTEMPT, state) == LEASE_SECONDS == 1800


@pytest.mark.parametrize("state", AT_WORK)
def test_a_requested_length_replaces_the_default(state: WorkerState) -> None:
    assert lease_seconds(ATTEMPT._replace(lease_seconds=30), state) == 30


@pytest.mark.parametrize("requested", [None, 30])
def test_an_offer_has_its_own_length(requested: int | None) -> None:
    offered = ATTEMPT._replace(state=WorkerState.ASSIGNED, lease_seconds=requested)
    assert lease_seconds(offered, WorkerState.ASSIGNED) == OFFER_SECONDS
    assert heartbeat_lease_seconds(offered) == OFFER_SECONDS


@pytest.mark.parametrize("requested", [None, 30])
def test_an_attempt_that_becomes_blocked_or_paused_has_a_long_lease(requested: int | None) -> None:
    attempt = ATTEMPT._replace(lease_seconds=requested)
    assert lease_seconds(attempt, WorkerState.BLOCKED) == BLOCKED_LEASE_SECONDS
    paused = lease_seconds(attempt, WorkerState.EXECUTING, is_paused=True)
    assert paused == BLOCKED_LEASE_SECONDS


def test_a_heartbeat_of_a_blocked_worker_keeps_the_requested_length() -> None:
    blocked = ATTEMPT._replace(state=WorkerState.BLOCKED)
    assert heartbeat_lease_seconds(blocked) == BLOCKED_LEASE_SECONDS
    assert heartbeat_lease_seconds(blocked._replace(lease_seconds=30)) == 30


def test_the_lease_ends_one_lease_length_from_now() -> None:
    attempt = ATTEMPT._replace(lease_seconds=30)
    assert lease_end_ms(attempt, WorkerState.EXECUTING, 1_000) == 31_000


def test_a_packet_has_no_lease() -> None:
    packet = ATTEMPT._replace(packet_id=7, lease_seconds=30)
    assert lease_end_ms(packet, WorkerState.EXECUTING, 1_000) is None
