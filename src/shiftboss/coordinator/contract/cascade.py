"""The state of repos, and pauses: work stops while upstream is red or the chain is halted."""

from __future__ import annotations

from typing import NamedTuple

from shiftboss.coordinator.bus.dispatch import drain
from shiftboss.coordinator.contract.attempts import add_attempt_event, attempt_of, restarted
from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.errors import RepoBlocked
from shiftboss.protocol.claims.verdicts import Verdict
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.claims.claims import Claim
from shiftboss.rules.claims.verdicts import proves_green_ci
from shiftboss.rules.contract.forbidden_patterns import violation_of
from shiftboss.rules.contract.records import Halt, RepoLock, RepoState, Tracking
from shiftboss.rules.handoffs.handoffs import Handoff
from shiftboss.rules.runs.records import LandingRecord
from shiftboss.rules.tasks.leases import lease_end_ms
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.store.port import Transaction


def record_red(tx: Transaction, tracking: Tracking, now_ms: int) -> None:
    """CI failed for a commit of the branch. `settle_pause` pauses the repos that depend on it."""
    tx.put_repo_state(
        RepoState(
            tracking.repo,
            "red",
            tracking.sha,
            tracking.run_id,
            tracking.swarm_id,
            tracking.task_id,
            now_ms,
        )
    )


def record_verified_state(
    tx: Transaction, claim: Claim, handoff: Handoff, verdict: Verdict, now_ms: int
) -> None:
    """A repo is green when a verifier has confirmed it: CI passed, and the commit is still on its
    branch. The claim may be refused for other reasons."""
    if handoff.repo_name is None or verdict.commit is None or not proves_green_ci(verdict):
        return
    if handoff.lands_later:
        return  # nothing depends on it before it lands: see `record_repo_state`
    tracking = tx.tracking(claim.swarm_id, claim.task_id)
    followed = tracking if tracking is not None and tracking.sha == verdict.commit else None
    run_id = verdict.ci_runs[0].run_id if verdict.ci_runs else None
    tx.put_repo_state(
        RepoState(
            handoff.repo_name,
            "green",
            verdict.commit,
            run_id,
            claim.swarm_id,
            claim.task_id,
            now_ms,
        )
    )
    tx.put_green(handoff.repo_name, followed.pushed_at_ms if followed else claim.asked_at_ms)


def record_landing_push(
    tx: Transaction, handoff: Handoff, landing: LandingRecord, now_ms: int
) -> None:
    """Record a push to the branch of the policy, which other repos build on."""
    if handoff.repo_name is None or not handoff.lands_later or landing.landed_commit is None:
        return
    tx.hold_repo(handoff.repo_name)
    tx.add_push(handoff.repo_name, landing.landed_commit, landing.swarm_id, landing.task_id, now_ms)


def record_repo_state(
    tx: Transaction, handoff: Handoff, landing: LandingRecord, ci: str | None, now_ms: int
) -> None:
    """Record the CI result of a landed commit, if it has one. A state that stays the same keeps
    its time."""
    if handoff.repo_name is None or landing.landed_commit is None or ci not in _REPO_STATES:
        return
    repo, state = handoff.repo_name, _REPO_STATES[ci]
    known = {known.repo: (known.state, known.sha) for known in tx.repo_states()}
    if known.get(repo) == (state, landing.landed_commit):
        return
    tx.put_repo_state(
        RepoState(
            repo, state, landing.landed_commit, None, landing.swarm_id, landing.task_id, now_ms
        )
    )
    if state == "green":
        # The accepted commit passed before it landed: it does not contain later pushes.
        is_accepted_commit = landing.landed_commit == landing.commit_sha
        tx.put_green(repo, landing.accepted_at_ms if is_accepted_commit else now_ms)


_REPO_STATES = {"passed": "green", "failed": "red"}


def unsettled(tx: Transaction, policy: ActivePolicy) -> list[RepoLock]:
    """The locks whose work has to be paused or resumed."""
    blockage = Blockage.current(tx)
    return [
        lock
        for lock in tx.repo_locks()
        if lock.repo in policy
        and (held := tx.assignment(lock.swarm_id, lock.task_id)) is not None
        and attempt_of(tx, held).paused != blockage.reason(policy, lock.repo)
    ]


def settle_pause(tx: Transaction, policy: ActivePolicy, lock: RepoLock, now_ms: int) -> None:
    """Pause or resume the work on a locked repo. A repeat changes nothing."""
    if tx.take_swarm(lock.swarm_id) is None:
        return
    held = tx.assignment(lock.swarm_id, lock.task_id)
    if held is None or tx.repo_lock_of_task(lock.swarm_id, lock.task_id) is None:
        return
    reason = Blockage.current(tx).reason(policy, lock.repo)
    attempt = attempt_of(tx, held)
    if attempt.paused == reason:
        return
    # The worker is not charged for the pause: its milestone starts again.
    tx.put_contract_attempt(restarted(attempt, now_ms)._replace(paused=reason))
    _change_lease(tx, held, reason, now_ms)
    kind = EventKind.WORK_PAUSED if reason else EventKind.WORK_RESUMED
    add_attempt_event(tx, held, kind, now_ms, reason=reason, was=attempt.paused)


def hand_out(tx: Transaction, swarm_id: str, now_ms: int) -> None:
    """Hand out tasks after a halt was lifted."""
    if tx.take_swarm(swarm_id) is not None:
        drain(tx, swarm_id, now_ms)


def _change_lease(tx: Transaction, held: Assignment, reason: str | None, now_ms: int) -> None:
    """A paused worker sends no heartbeats, so it gets the long lease of a blocked one."""
    if held.lease_expires_at_ms is None or held.state is WorkerState.ASSIGNED:
        return
    end_ms = lease_end_ms(held, held.state, now_ms, is_paused=reason is not None)
    tx.save_assignment(held._replace(lease_expires_at_ms=end_ms))


class Blockage(NamedTuple):
    """The halts in force and the red repos, which stop work on other repos."""

    halts: list[Halt]
    red: set[str]

    @classmethod
    def current(cls, tx: Transaction) -> Blockage:
        red = {state.repo for state in tx.repo_states() if state.state == "red"}
        return cls(tx.halts_in_force(), red)

    def red_upstream(self, policy: ActivePolicy, repo: str) -> list[str]:
        return [name for name in policy.upstream(repo) if name in self.red] if self.red else []

    def reason(self, policy: ActivePolicy, repo: str) -> str | None:
        """Why work on the repo has to stop; None if it may continue."""
        reasons = [
            f"halt {halt.halt_id} until the operator resumes: {halt.reason}"
            for halt in self.halts
            if repo in halt.repos
        ]
        red = self.red_upstream(policy, repo)
        if red:
            reasons.append(f"Dependency {', '.join(red)} failed, pausing until resolved")
        return "; ".join(reasons) or None


def check_may_push(tx: Transaction, policy: ActivePolicy, repo: str | None) -> None:
    """Refuse a push while a dependency is red, because CI would fail with it, or while the chain
    is halted."""
    if repo is None or repo not in policy:
        return
    blockage = Blockage.current(tx)
    red = blockage.red_upstream(policy, repo)
    if red:
        raise violation_of(
            "triggering_dependent_ci_before_dependency_green",
            f"{repo} depends on {', '.join(red)}, whose CI is red",
            field="report",
            hint="wait until it is green (a poll returns then), and report PUSHED_TO_CI again",
        )
    reason = blockage.reason(policy, repo)
    if reason is not None:
        raise RepoBlocked(f"{repo}: {reason}; nothing was changed", field="report")
