"""Red upstream or a halted chain: the work on a repo pauses, and goes on when it may."""

from __future__ import annotations

from typing import NamedTuple

from shiftboss.coordinator.bus.dispatch import drain
from shiftboss.coordinator.contract.attempts import attempt_of, restarted, tell
from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.errors import RepoBlocked
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.states import WorkerState
from shiftboss.protocol.verdicts import Verdict
from shiftboss.rules.claims.handoffs import Claim, Handoff
from shiftboss.rules.claims.verdicts import shows_green
from shiftboss.rules.contract.forbidden_patterns import violation_of
from shiftboss.rules.contract.records import Halt, RepoLock, RepoState, Tracking
from shiftboss.rules.runs.records import LandingRecord
from shiftboss.rules.tasks.leases import lease_end_ms
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.store.port import Transaction


def turned_red(tx: Transaction, tracking: Tracking, now_ms: int) -> None:
    """CI has failed at a commit of the branch. Who builds upon it is told by `settle_pause`."""
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


def seen_by_verifier(
    tx: Transaction, claim: Claim, handoff: Handoff, verdict: Verdict, now_ms: int
) -> None:
    """A repo is green when a verifier has seen that it is: CI once more, and the commit still on
    its branch. Whether the claim is accepted is another matter."""
    if handoff.repo_name is None or verdict.commit is None or not shows_green(verdict):
        return
    if handoff.lands_later:
        return  # nobody builds upon it yet: see `repo_state`
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


def landed_at(tx: Transaction, handoff: Handoff, landing: LandingRecord, now_ms: int) -> None:
    """The branch of the policy has moved: from here on others build upon it."""
    if handoff.repo_name is None or not handoff.lands_later or landing.landed_commit is None:
        return
    tx.hold_repo(handoff.repo_name)
    tx.add_push(handoff.repo_name, landing.landed_commit, landing.swarm_id, landing.task_id, now_ms)


def repo_state(
    tx: Transaction, handoff: Handoff, landing: LandingRecord, ci: str | None, now_ms: int
) -> None:
    """What CI says of a commit that has landed, once it has said it. Red is said again at every
    look: it is as old as it was."""
    if handoff.repo_name is None or landing.landed_commit is None or ci not in _REPO_STATES:
        return
    known = next((one for one in tx.repo_states() if one.repo == handoff.repo_name), None)
    if known is not None and (known.state, known.sha) == (_REPO_STATES[ci], landing.landed_commit):
        return
    state = RepoState(
        handoff.repo_name,
        _REPO_STATES[ci],
        landing.landed_commit,
        None,
        landing.swarm_id,
        landing.task_id,
        now_ms,
    )
    tx.put_repo_state(state)
    if state.state == "green":
        # The commit that was accepted has passed before: what others pushed since is not in it.
        as_it_was = landing.landed_commit == landing.commit_sha
        tx.put_green(state.repo, landing.accepted_at_ms if as_it_was else now_ms)


_REPO_STATES = {"passed": "green", "failed": "red"}


def unsettled(tx: Transaction, policy: ActivePolicy) -> list[RepoLock]:
    """The locks whose work has to be told that it pauses, or that it goes on."""
    trouble = Trouble.known_to(tx)
    return [
        lock
        for lock in tx.repo_locks()
        if lock.repo in policy
        and (held := tx.assignment(lock.swarm_id, lock.task_id)) is not None
        and attempt_of(tx, held).paused != trouble.reason(policy, lock.repo)
    ]


def settle_pause(tx: Transaction, policy: ActivePolicy, lock: RepoLock, now_ms: int) -> None:
    """Saying it again changes nothing."""
    if tx.take_swarm(lock.swarm_id) is None:
        return
    held = tx.assignment(lock.swarm_id, lock.task_id)
    if held is None or tx.repo_lock_of_task(lock.swarm_id, lock.task_id) is None:
        return
    reason = Trouble.known_to(tx).reason(policy, lock.repo)
    attempt = attempt_of(tx, held)
    if attempt.paused == reason:
        return
    # The time of the pause is not the worker's: what it was at begins anew.
    tx.put_contract_attempt(restarted(attempt, now_ms)._replace(paused=reason))
    _change_lease(tx, held, reason, now_ms)
    kind = EventKind.WORK_PAUSED if reason else EventKind.WORK_RESUMED
    tell(tx, held, kind, now_ms, reason=reason, was=attempt.paused)


def hand_out(tx: Transaction, swarm_id: str, now_ms: int) -> None:
    """A halt was lifted: what was held back is handed out, if somebody is free."""
    if tx.take_swarm(swarm_id) is not None:
        drain(tx, swarm_id, now_ms)


def _change_lease(tx: Transaction, held: Assignment, reason: str | None, now_ms: int) -> None:
    """A worker that waits for others shows no sign of life; it has as long as a blocked one."""
    if held.lease_expires_at_ms is None or held.state is WorkerState.ASSIGNED:
        return
    end_ms = lease_end_ms(held, held.state, now_ms, is_paused=reason is not None)
    tx.save_assignment(held._replace(lease_expires_at_ms=end_ms))


class Trouble(NamedTuple):
    """What stands in the way of work, all repos together."""

    halts: list[Halt]
    red: set[str]

    @classmethod
    def known_to(cls, tx: Transaction) -> Trouble:
        red = {one.repo for one in tx.repo_states() if one.state == "red"}
        return cls(tx.halts_in_force(), red)

    def red_upstream(self, policy: ActivePolicy, repo: str) -> list[str]:
        return [one for one in policy.upstream(repo) if one in self.red] if self.red else []

    def reason(self, policy: ActivePolicy, repo: str) -> str | None:
        """Why nobody may go on with the repo."""
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
    """A push upon a red dependency would be judged with it; in a halted chain nothing moves."""
    if repo is None or repo not in policy:
        return
    trouble = Trouble.known_to(tx)
    red = trouble.red_upstream(policy, repo)
    if red:
        raise violation_of(
            "triggering_dependent_ci_before_dependency_green",
            f"{repo} is built upon {', '.join(red)}, whose CI is red",
            field="report",
            hint="wait until it is green: a poll tells; then report PUSHED_TO_CI again",
        )
    reason = trouble.reason(policy, repo)
    if reason is not None:
        raise RepoBlocked(f"{repo}: {reason}; nothing was changed", field="report")
