"""A CI that stands still is restarted, once in a milestone: what is asked for, and what came of it.

The ladder notes that it asks, in its own transaction; then the duty has it done, and notes here
what came of it. A server that dies in between has asked: the time to wait runs as if it was done.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from typing import Final, NamedTuple

from shiftboss.coordinator.contract.attempts import tell
from shiftboss.protocol.ci import CiDemand
from shiftboss.protocol.events import EventKind
from shiftboss.rules.contract.records import ContractAttempt, Tracking
from shiftboss.rules.contract.timeouts import LadderState
from shiftboss.store.port import Transaction

# How long a restart may take, and for how long what was called off for it is no failure.
RESTART_SECONDS: Final = 60.0
RESTART_MS: Final = 90_000
# When CI is looked at again after it.
LOOK_AFTER_MS: Final = 10_000


class RestartRequest(NamedTuple):
    demand: CiDemand
    sha: str


def ladder_of(attempt: ContractAttempt | None) -> LadderState:
    if attempt is None or attempt.ladder is None:
        return LadderState()
    return LadderState(**json.loads(attempt.ladder))


def mark_of(tracking: Tracking | None) -> str | None:
    """Another one as soon as a run has moved. None: there is none, or the forge does not answer."""
    if tracking is None or tracking.report is None or tracking.errors:
        return None
    return hashlib.sha256(tracking.report.encode()).hexdigest()[:16]


def wanted(tx: Transaction, seen: ContractAttempt) -> RestartRequest | None:
    """What is to be restarted; None when nobody needs it any more."""
    tracking = tx.tracking(seen.swarm_id, seen.task_id)
    handoff = tx.handoff(seen.swarm_id, seen.task_id)
    if tracking is None or tracking.look_at_ms is None or handoff is None or handoff.ci is None:
        return None
    return RestartRequest(CiDemand.model_validate_json(handoff.ci), tracking.sha)


def settle(
    tx: Transaction, seen: ContractAttempt, sha: str, refusal: str | None, now_ms: int
) -> bool:
    """What came of it. A new push, or a new milestone, has made it pointless: False."""
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
        again_ms = now_ms if refusal is not None else now_ms + LOOK_AFTER_MS
        tx.put_tracking(tracking._replace(look_at_ms=again_ms, pause_ms=0))
    tell(
        tx,
        held,
        EventKind.CI_RESTARTED,
        now_ms,
        repo=tracking.repo,
        sha=sha,
        run_id=tracking.run_id,
        restarted=refusal is None,
        outcome="it was restarted" if refusal is None else f"it was not restarted: {refusal}",
    )
    return True


def is_under_way(tx: Transaction, tracking: Tracking, now_ms: int) -> bool:
    """What was called off to be made anew looks like a failure for a moment."""
    attempt = tx.contract_attempt(tracking.swarm_id, tracking.task_id)
    ladder = ladder_of(attempt)
    if attempt is None or attempt.epoch != tracking.epoch or ladder.ci_restarted_at_ms is None:
        return False
    return now_ms < ladder.ci_restarted_at_ms + RESTART_MS
