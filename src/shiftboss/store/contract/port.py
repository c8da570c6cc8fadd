"""The part of the port for the completion contract."""

from __future__ import annotations

from typing import Protocol

from shiftboss.rules.contract.records import (
    ContractAttempt,
    Halt,
    Push,
    RepoLock,
    RepoState,
    StoredCheckpoint,
    Tracking,
)


class ContractTransaction(Protocol):
    """Repo locks, the CI of pushed commits, attempts under the contract, halts, checkpoints."""

    # -- repos
    def hold_repos(self) -> None:
        """No other transaction can lock a repo until the commit."""
        ...

    def repo_locks(self) -> list[RepoLock]: ...

    def repo_lock_of_task(self, swarm_id: str, task_id: str) -> RepoLock | None: ...

    def add_repo_lock(self, lock: RepoLock) -> bool:
        """False, without a change, if the repo is locked or the task has another lock."""
        ...

    def release_repo(self, repo: str) -> bool: ...

    def repo_states(self) -> list[RepoState]: ...

    def forget_red(self, repo: str) -> None:
        """Drop the red state of a repo; a green state stays."""
        ...

    def put_repo_state(self, state: RepoState) -> None: ...

    def put_green(self, repo: str, pushed_at_ms: int) -> None:
        """Record when the last commit that passed was pushed. The repo has a state."""
        ...

    def last_green_at_ms(self, repo: str) -> int | None:
        """When the last commit that passed was pushed; None if none is known."""
        ...

    # -- CI
    def tracking(self, swarm_id: str, task_id: str) -> Tracking | None: ...

    def due_tracking(self, now_ms: int, limit: int) -> list[Tracking]:
        """The longest overdue first."""
        ...

    def tracking_of_sha(self, repo: str, sha: str) -> list[Tracking]:
        """Those that are still followed."""
        ...

    def next_ci_check_at_ms(self) -> int | None: ...

    def put_tracking(self, tracking: Tracking) -> None:
        """Replaces the commit that was followed for the task."""
        ...

    def drop_tracking(self, swarm_id: str, task_id: str) -> None: ...

    def add_push(self, repo: str, sha: str, swarm_id: str, task_id: str, at_ms: int) -> None: ...

    def newest_pushes(self, repo: str) -> list[Push]:
        """The newest first, at most 200."""
        ...

    # -- attempts
    def contract_attempt(self, swarm_id: str, task_id: str) -> ContractAttempt | None: ...

    def due_attempts(self, now_ms: int, limit: int) -> list[ContractAttempt]: ...

    def next_attempt_check_at_ms(self) -> int | None: ...

    def put_contract_attempt(self, attempt: ContractAttempt) -> None: ...

    def drop_contract_attempt(self, swarm_id: str, task_id: str) -> None: ...

    # -- halts and checkpoints
    def halts_in_force(self) -> list[Halt]: ...

    def add_halt(self, halt: Halt) -> int:
        """Its id."""
        ...

    def halt(self, halt_id: int) -> Halt | None:
        """Includes lifted halts."""
        ...

    def halt_of_task(self, swarm_id: str, task_id: str) -> Halt | None:
        """The halt in force for the repo of the task."""
        ...

    def lift_halt(self, halt_id: int, at_ms: int) -> bool: ...

    def put_checkpoint(self, checkpoint: StoredCheckpoint) -> None: ...

    def checkpoint(self, swarm_id: str, task_id: str) -> StoredCheckpoint | None: ...

    def checkpoints(self, swarm_id: str, limit: int) -> list[StoredCheckpoint]: ...
