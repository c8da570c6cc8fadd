"""A push: from here on the server follows the CI of its commit."""

from __future__ import annotations

from shiftboss.coordinator.contract.attempts import milestone_of, restarted
from shiftboss.errors import InvalidRequest
from shiftboss.protocol.milestones import PushedToCi
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.claims.handoffs import Handoff
from shiftboss.rules.contract.records import ContractAttempt, Tracking
from shiftboss.rules.tasks.message_payloads import with_commit
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.store.port import Transaction


def pushed(
    tx: Transaction,
    held: Assignment,
    handoff: Handoff,
    attempt: ContractAttempt,
    said: PushedToCi,
    sha: str | None,
    now_ms: int,
) -> tuple[Assignment, ContractAttempt]:
    """From here on the server follows the CI of this commit alone; an older one is forgotten."""
    if sha is None:
        raise InvalidRequest(
            f"commit: {said.commit} is not a commit of {said.repo}",
            field="commit",
            hint="commit and push first, then name the commit that was pushed",
        )
    before = milestone_of(held, attempt)
    after = with_commit(held, sha, "commit")._replace(
        state=WorkerState.VERIFYING, updated_at_ms=now_ms, lease_expires_at_ms=None
    )
    tx.save_assignment(after)
    tx.hear_answers(held.swarm_id, held.task_id, held.epoch)
    followed = _follow(tx, held, handoff, said.repo, sha, now_ms)
    # Who could push may use its tools, and has got over what had failed before.
    attempt = attempt._replace(ci_failed=False, last_commit_ms=now_ms, denials=None)
    new = followed or before != "PUSHED_TO_CI"
    return after, restarted(attempt, now_ms) if new else attempt


def _follow(
    tx: Transaction, held: Assignment, handoff: Handoff, repo: str, sha: str, now_ms: int
) -> bool:
    """False: it is followed already, and its report tells news of it."""
    known = tx.tracking(held.swarm_id, held.task_id)
    if known is not None and known.sha == sha and known.look_at_ms is not None:
        return False
    if handoff.ci is not None:
        tx.put_tracking(_tracking(held, repo, sha, now_ms))
        # What is on a branch of its own is pushed to the repo's when it lands.
        if not handoff.lands_later and (known is None or known.sha != sha):
            tx.hold_repo(repo)
            tx.add_push(repo, sha, held.swarm_id, held.task_id, now_ms)
    return True


def _tracking(held: Assignment, repo: str, sha: str, now_ms: int) -> Tracking:
    return Tracking(
        swarm_id=held.swarm_id,
        task_id=held.task_id,
        epoch=held.epoch,
        repo=repo,
        sha=sha,
        state="waiting",
        run_id=None,
        report=None,
        errors=0,
        pushed_at_ms=now_ms,
        look_at_ms=now_ms,
    )
