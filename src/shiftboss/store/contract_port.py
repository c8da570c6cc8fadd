"""The part of the port that the completion contract needs."""

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
        """Nobody else locks a repo until the commit."""
        ...

    def repo_locks(self) -> list[RepoLock]: ...

    def repo_lock_of_task(self, swarm_id: str, task_id: str) -> RepoLock | None: ...

    def add_repo_lock(self, lock: RepoLock) -> bool:
        """False, and no change, when the repo is locked or the task has another."""
        ...

    def release_repo(self, repo: str) -> bool: ...

    def repo_states(self) -> list[RepoState]: ...

    def forget_red(self, repo: str) -> None:
        """Nobody knows what CI says of the repo now; what is green stays."""
        ...

    def put_repo_state(self, state: RepoState) -> None: ...

    def put_green(self, repo: str, pushed_at_ms: int) -> None:
        """Of a repo with a state: a commit that was pushed then has passed."""
        ...

    def last_green_at_ms(self, repo: str) -> int | None:
        """When the last commit was pushed that passed; None: none is known."""
        ...

    # -- CI
    def tracking(self, swarm_id: str, task_id: str) -> Tracking | None: ...

    def due_tracking(self, now_ms: int, limit: int) -> list[Tracking]:
        """The longest overdue first."""
        ...

    def tracking_of_sha(self, repo: str, sha: str) -> list[Tracking]:
        """The open ones."""
        ...

    def next_look_at_ms(self) -> int | None: ...

    def put_tracking(self, tracking: Tracking) -> None:
        """Replaces the commit that was followed for the task before."""
        ...

    def drop_tracking(self, swarm_id: str, task_id: str) -> None: ...

    def add_push(self, repo: str, sha: str, swarm_id: str, task_id: str, at_ms: int) -> None: ...

    def newest_pushes(self, repo: str) -> list[Push]:
        """The newest first, at most 200."""
        ...

    # -- attempts
    def contract_attempt(self, swarm_id: str, task_id: str) -> ContractAttempt | None: ...

    def due_attempts(self, now_ms: int, limit: int) -> list[ContractAttempt]: ...

    def next_attempt_look_at_ms(self) -> int | None: ...

    def put_contract_attempt(self, attempt: ContractAttempt) -> None: ...

    def drop_contract_attempt(self, swarm_id: str, task_id: str) -> None: ...

    # -- halts and checkpoints
    def halts_in_force(self) -> list[Halt]: ...

    def add_halt(self, halt: Halt) -> int:
        """The id it got."""
        ...

    def halt(self, halt_id: int) -> Halt | None:
        """Also one that was lifted."""
        ...

    def halt_of_task(self, swarm_id: str, task_id: str) -> Halt | None:
        """The halt in force of the repo that the task works on."""
        ...

    def lift_halt(self, halt_id: int, at_ms: int) -> bool: ...

    def put_checkpoint(self, checkpoint: StoredCheckpoint) -> None: ...

    def checkpoint(self, swarm_id: str, task_id: str) -> StoredCheckpoint | None: ...

    def checkpoints(self, swarm_id: str, limit: int) -> list[StoredCheckpoint]: ...
