"""Restarts of a stuck CI, once per milestone: the request, and its result.

The ladder records the request in its own transaction; then the duty restarts the CI and records the
result here. If the server dies in between, the waiting time runs as if the CI had been restarted.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from typing import Final, NamedTuple

from shiftboss.coordinator.contract.attempts import add_attempt_event
from shiftboss.protocol.ci import CiDemand
from shiftboss.protocol.events import EventKind
from shiftboss.rules.contract.records import ContractAttempt, Tracking
from shiftboss.rules.contract.timeouts import LadderState
from shiftboss.store.port import Transaction

# How long a restart may take, and for how long a cancelled run does not count as a failure.
RESTART_SECONDS: Final = 60.0
RESTART_MS: Final = 90_000
# When CI is checked after a restart.
CHECK_AFTER_MS: Final = 10_000


class RestartRequest(NamedTuple):
    demand: CiDemand
    sha: str


def ladder_of(attempt: ContractAttempt | None) -> LadderState:
    if attempt is None or attempt.ladder is None:
        return LadderState()
    return LadderState(**json.loads(attempt.ladder))


def mark_of(tracking: Tracking | None) -> str | None:
    """Changes whenever a run changes. None if there is no report, or the forge does not respond."""
    if tracking is None or tracking.report is None or tracking.errors:
        return None
    return hashlib.sha256(tracking.report.encode()).hexdigest()[:16]


def restart_request(tx: Transaction, seen: ContractAttempt) -> RestartRequest | None:
    """The CI to restart; None if the restart is no longer needed."""
    tracking = tx.tracking(seen.swarm_id, seen.task_id)
    handoff = tx.handoff(seen.swarm_id, seen.task_id)
    if tracking is None or tracking.look_at_ms is None or handoff is None or handoff.ci is None:
        return None
    return RestartRequest(CiDemand.model_validate_json(handoff.ci), tracking.sha)


def settle(
    tx: Transaction, seen: ContractAttempt, sha: str, refusal: str | None, now_ms: int
) -> bool:
    """Record the result. False if a new push or a new milestone has made it pointless."""
    if tx.take_swarm(seen.swarm_id) is None:
        return False
    held = tx.assignment(seen.swarm_id, seen.task_id)
    attempt = tx.contract_attempt(seen.swarm_id, seen.task_id)
    tracking = tx.tracking(seen.swarm_id, seen.task_id)
    if held is None or attempt is None or tracking is None or tracking.sha != sha:
        return False
    ladder = ladder_of(attempt)
    if not held.epoch == attempt.epoch == seen.epoch or ladder.ci_restart != "asked":
        return False
    if refusal is not None:
        ladder = replace(ladder, ci_restart="refused", ci_restarted_at_ms=None)
    tx.put_contract_attempt(attempt._replace(ladder=json.dumps(asdict(ladder)), look_at_ms=now_ms))
    if tracking.look_at_ms is not None:
        again_ms = now_ms if refusal is not None else now_ms + CHECK_AFTER_MS
        tx.put_tracking(tracking._replace(look_at_ms=again_ms, pause_ms=0))
    add_attempt_event(
        tx,
        held,
        EventKind.CI_RESTARTED,
        now_ms,
        repo=tracking.repo,
        sha=sha,
        run_id=tracking.run_id,
        restarted=refusal is None,
        outcome="restarted" if refusal is None else f"not restarted: {refusal}",
    )
    return True


def is_under_way(tx: Transaction, tracking: Tracking, now_ms: int) -> bool:
    """Whether a restart is in progress: the cancelled run looks like a failure until then."""
    attempt = tx.contract_attempt(tracking.swarm_id, tracking.task_id)
    ladder = ladder_of(attempt)
    if attempt is None or attempt.epoch != tracking.epoch or ladder.ci_restarted_at_ms is None:
        return False
    return now_ms < ladder.ci_restarted_at_ms + RESTART_MS
