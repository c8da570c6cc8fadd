"""Records that the store keeps for the completion contract."""

from __future__ import annotations

from typing import Final, NamedTuple

from shiftboss.protocol.contract.contract_requests import CompletionReturn


class RepoLock(NamedTuple):
    """The task that works on a repo. `merges` is the accepted task whose work this task merges, and
    whose lock it took over."""

    repo: str
    swarm_id: str
    task_id: str
    since_ms: int
    merges: str | None = None


class RepoState(NamedTuple):
    """The last CI result of a repo's branch. `state` is green or red."""

    repo: str
    state: str
    sha: str
    run_id: str | None
    swarm_id: str
    task_id: str
    since_ms: int


class Tracking(NamedTuple):
    """The commit of a task whose CI is tracked. `report` is the newest CI report as JSON."""

    swarm_id: str
    task_id: str
    epoch: int
    repo: str
    sha: str
    state: str  # waiting, running, passed, failed
    run_id: str | None
    report: str | None
    errors: int  # failed checks in a row
    pushed_at_ms: int
    look_at_ms: int | None
    pause_ms: int = 0  # between the last check and the next


class Push(NamedTuple):
    """A pushed commit of a repo. `number` counts the pushes of the repo."""

    repo: str
    number: int
    sha: str
    swarm_id: str
    task_id: str
    at_ms: int


class Halt(NamedTuple):
    """A fatal failure. Nothing is spawned in these repos until the operator lifts the halt."""

    halt_id: int
    repos: list[str]
    reason: str
    swarm_id: str
    task_id: str
    at_ms: int
    lifted_at_ms: int | None


class StoredCheckpoint(NamedTuple):
    """The last checkpoint of an attempt. `body` is JSON."""

    swarm_id: str
    task_id: str
    epoch: int
    trigger_name: str
    body: str
    at_ms: int


class ContractAttempt(NamedTuple):
    """What the contract keeps for an attempt in addition to its state.

    These are JSON: `progress` (the last report), `ladder` (the steps of the timeout ladder so far),
    `denials` (the failures in a row) and `signs` (the stall indicators that were reported).
    `paused` is the reason while an upstream repo is red or the chain is halted. `tip` is the tip of
    the branch at the last check.
    """

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


PATHS_SHOWN_MAX: Final = 50


def summary_of(returns: CompletionReturn, *, is_run_known: bool) -> str:
    """What a worker returned at completion, as the summary of its receipt.

    It is only the worker's statement. The receipt itself has the verified changes and CI runs. The
    run that the worker names is left out unless it is known to be one of the commit.
    """
    parts = (
        ("Files created", returns.files_created),
        ("Files modified", returns.files_modified),
        ("Tests added", returns.tests_added),
    )
    named = [f"{title}: {_shown(paths)}" for title, paths in parts if paths]
    run = [f"CI run: {returns.ci_run_id}"] if is_run_known else []
    return "\n".join([returns.summary, *named, *run])


def _shown(paths: list[str]) -> str:
    more = len(paths) - PATHS_SHOWN_MAX
    return ", ".join([*paths[:PATHS_SHOWN_MAX], *([f"and {more} more"] if more > 0 else [])])
