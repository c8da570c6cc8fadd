"""What the store remembers under the completion contract."""

from __future__ import annotations

from typing import Final, NamedTuple

from shiftboss.protocol.contract_requests import CompletionReturn


class RepoLock(NamedTuple):
    """Who works on a repo. `merges`: the accepted task whose work this one brings in, and from
    which it has the lock."""

    repo: str
    swarm_id: str
    task_id: str
    since_ms: int
    merges: str | None = None


class RepoState(NamedTuple):
    """What CI last said of a repo's branch: `state` is green or red."""

    repo: str
    state: str
    sha: str
    run_id: str | None
    swarm_id: str
    task_id: str
    since_ms: int


class Tracking(NamedTuple):
    """The one commit whose CI is followed for a task. `report` is the newest one, JSON."""

    swarm_id: str
    task_id: str
    epoch: int
    repo: str
    sha: str
    state: str  # waiting, running, passed, failed
    run_id: str | None
    report: str | None
    errors: int  # looks in a row that failed
    pushed_at_ms: int
    look_at_ms: int | None
    pause_ms: int = 0  # between the last look and the next


class Push(NamedTuple):
    """A pushed commit of a repo; they are counted."""

    repo: str
    number: int
    sha: str
    swarm_id: str
    task_id: str
    at_ms: int


class Halt(NamedTuple):
    """A fatal failure: nothing is spawned in these repos until the operator lifts it."""

    halt_id: int
    repos: list[str]
    reason: str
    swarm_id: str
    task_id: str
    at_ms: int
    lifted_at_ms: int | None


class StoredCheckpoint(NamedTuple):
    """Where an attempt stood when it was last written down. `body` is JSON."""

    swarm_id: str
    task_id: str
    epoch: int
    trigger_name: str
    body: str
    at_ms: int


class ContractAttempt(NamedTuple):
    """What the contract keeps of the attempt at a task beside its state. `progress` is the last
    report, `ladder` the steps of the timeout ladder that were taken, `denials` the failures in a
    row, `signs` those of a deadlock that were told: all JSON. `paused` says why, while a repo
    upstream is red or the chain is halted. `tip` is where the branch was at the last look."""

    swarm_id: str
    task_id: str
    epoch: int
    milestone_at_ms: int
    fix_attempts: int = 0
    ci_failed: bool = False
    progress: str | None = None
    ladder: str | None = None
    denials: str | None = None
    paused: str | None = None
    last_commit_ms: int | None = None
    look_at_ms: int | None = None
    signs: str | None = None
    tip: str | None = None


# What a worker gives back at completion, as the summary of its receipt. It is the worker's word:
# what was changed and what CI said stands in the receipt by itself.


PATHS_SHOWN_MAX: Final = 50


def summary_of(returns: CompletionReturn) -> str:
    parts = (
        ("Files created", returns.files_created),
        ("Files modified", returns.files_modified),
        ("Tests added", returns.tests_added),
    )
    named = [f"{title}: {_shown(paths)}" for title, paths in parts if paths]
    return "\n".join([returns.summary, *named, f"CI run: {returns.ci_run_id}"])


def _shown(paths: list[str]) -> str:
    more = len(paths) - PATHS_SHOWN_MAX
    return ", ".join([*paths[:PATHS_SHOWN_MAX], *([f"and {more} more"] if more > 0 else [])])
