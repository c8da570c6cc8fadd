"""The rows of the completion contract: repo locks, CI, attempts, halts, checkpoints."""

from __future__ import annotations

import json

from shiftboss.rules.contract.records import (
    ContractAttempt,
    Halt,
    Push,
    RepoLock,
    RepoState,
    StoredCheckpoint,
    Tracking,
)
from shiftboss.store.transaction_part import Row, TransactionPart

PUSHES_MAX = 200


class ContractRows(TransactionPart):
    """Implements `shiftboss.store.contract.port.ContractTransaction`."""

    # -- repos

    def hold_repos(self) -> None:
        # One lock for all repos, because each decision depends on every active repo.
        self._session.fetch_one("hold_repo", {"repo": "\x01all repos"})

    def repo_locks(self) -> list[RepoLock]:
        return [RepoLock._make(row) for row in self._session.fetch_all("repo_locks", {})]

    def repo_lock_of_task(self, swarm_id: str, task_id: str) -> RepoLock | None:
        row = self._session.fetch_one(
            "repo_lock_of_task", {"swarm_id": swarm_id, "task_id": task_id}
        )
        return None if row is None else RepoLock._make(row)

    def add_repo_lock(self, lock: RepoLock) -> bool:
        return self._change("add_repo_lock", lock._asdict()) == 1

    def release_repo(self, repo: str) -> bool:
        return self._change("release_repo", {"repo": repo}) == 1

    def repo_states(self) -> list[RepoState]:
        return [RepoState._make(row) for row in self._session.fetch_all("repo_states", {})]

    def forget_red(self, repo: str) -> None:
        self._write("forget_red", {"repo": repo})

    def put_repo_state(self, state: RepoState) -> None:
        self._write("put_repo_state", state._asdict())

    def put_green(self, repo: str, pushed_at_ms: int) -> None:
        self._write("put_green", {"repo": repo, "pushed_at_ms": pushed_at_ms})

    def last_green_at_ms(self, repo: str) -> int | None:
        row = self._session.fetch_one("last_green_at_ms", {"repo": repo})
        return None if row is None else row[0]

    # -- CI

    def tracking(self, swarm_id: str, task_id: str) -> Tracking | None:
        row = self._session.fetch_one("tracking", {"swarm_id": swarm_id, "task_id": task_id})
        return None if row is None else Tracking._make(row)

    def due_tracking(self, now_ms: int, limit: int) -> list[Tracking]:
        rows = self._session.fetch_all("due_tracking", {"now_ms": now_ms, "limit": limit})
        return [Tracking._make(row) for row in rows]

    def tracking_of_sha(self, repo: str, sha: str) -> list[Tracking]:
        rows = self._session.fetch_all("tracking_of_sha", {"repo": repo, "sha": sha})
        return [Tracking._make(row) for row in rows]

    def next_ci_check_at_ms(self) -> int | None:
        row = self._session.fetch_one("next_ci_check_at_ms", {})
        return None if row is None else row[0]

    def put_tracking(self, tracking: Tracking) -> None:
        self._write("put_tracking", tracking._asdict())

    def drop_tracking(self, swarm_id: str, task_id: str) -> None:
        self._write("drop_tracking", {"swarm_id": swarm_id, "task_id": task_id})

    def add_push(self, repo: str, sha: str, swarm_id: str, task_id: str, at_ms: int) -> None:
        self._write(
            "add_push",
            {"repo": repo, "sha": sha, "swarm_id": swarm_id, "task_id": task_id, "at_ms": at_ms},
        )

    def newest_pushes(self, repo: str) -> list[Push]:
        rows = self._session.fetch_all("newest_pushes", {"repo": repo, "limit": PUSHES_MAX})
        return [Push._make(row) for row in rows]

    # -- attempts

    def contract_attempt(self, swarm_id: str, task_id: str) -> ContractAttempt | None:
        row = self._session.fetch_one(
            "contract_attempt", {"swarm_id": swarm_id, "task_id": task_id}
        )
        return None if row is None else to_contract_attempt(row)

    def due_attempts(self, now_ms: int, limit: int) -> list[ContractAttempt]:
        rows = self._session.fetch_all("due_attempts", {"now_ms": now_ms, "limit": limit})
        return [to_contract_attempt(row) for row in rows]

    def next_attempt_check_at_ms(self) -> int | None:
        row = self._session.fetch_one("next_attempt_check_at_ms", {})
        return None if row is None else row[0]

    def put_contract_attempt(self, attempt: ContractAttempt) -> None:
        self._write("put_contract_attempt", attempt._asdict())

    def drop_contract_attempt(self, swarm_id: str, task_id: str) -> None:
        self._write("drop_contract_attempt", {"swarm_id": swarm_id, "task_id": task_id})

    # -- halts and checkpoints

    def halts_in_force(self) -> list[Halt]:
        return [to_halt(row) for row in self._session.fetch_all("halts_in_force", {})]

    def add_halt(self, halt: Halt) -> int:
        self.wrote = True
        parameters = halt._asdict() | {"repos": json.dumps(halt.repos)}
        del parameters["halt_id"], parameters["lifted_at_ms"]
        row = self._session.fetch_one("add_halt", parameters)
        assert row is not None, "INSERT ... RETURNING gives a row"
        halt_id = int(row[0])
        for repo in dict.fromkeys(halt.repos):
            self._write("add_halted_repo", {"halt_id": halt_id, "repo": repo})
        return halt_id

    def halt(self, halt_id: int) -> Halt | None:
        row = self._session.fetch_one("halt", {"halt_id": halt_id})
        return None if row is None else to_halt(row)

    def halt_of_task(self, swarm_id: str, task_id: str) -> Halt | None:
        row = self._session.fetch_one("halt_of_task", {"swarm_id": swarm_id, "task_id": task_id})
        return None if row is None else to_halt(row)

    def lift_halt(self, halt_id: int, at_ms: int) -> bool:
        self._write("drop_halted_repos", {"halt_id": halt_id})
        return self._change("lift_halt", {"halt_id": halt_id, "lifted_at_ms": at_ms}) == 1

    def put_checkpoint(self, checkpoint: StoredCheckpoint) -> None:
        self._write("put_checkpoint", checkpoint._asdict())

    def checkpoint(self, swarm_id: str, task_id: str) -> StoredCheckpoint | None:
        row = self._session.fetch_one("checkpoint", {"swarm_id": swarm_id, "task_id": task_id})
        return None if row is None else StoredCheckpoint._make(row)

    def checkpoints(self, swarm_id: str, limit: int) -> list[StoredCheckpoint]:
        rows = self._session.fetch_all(
            "checkpoints_of_swarm", {"swarm_id": swarm_id, "limit": limit}
        )
        return [StoredCheckpoint._make(row) for row in rows]


def to_contract_attempt(row: Row) -> ContractAttempt:
    return ContractAttempt._make((*row[:5], bool(row[5]), *row[6:]))


def to_halt(row: Row) -> Halt:
    return Halt(row[0], json.loads(row[1]), *row[2:])
