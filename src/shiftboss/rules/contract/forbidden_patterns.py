"""The forbidden patterns of the completion contract: each has a name, and a place that stops it."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from shiftboss.errors import ContractViolations

ForbiddenName = Literal[
    "worker_exits_after_push_before_ci",
    "orchestrator_tracks_awaiting_ci",
    "done_without_ci_url",
    "assuming_radicle_synced",
    "parallel_dependent_workers",
    "upstream_worker_while_downstream_active",
    "downstream_worker_while_upstream_active",
    "querying_all_ci_runs",
    "caching_old_run_ids",
    "push_all_repos_at_once",
    "triggering_dependent_ci_before_dependency_green",
    "infinite_permission_retry_loop",
    "embedding_ci_context_at_spawn",
    "verbose_worker_prompt",
]


class ForbiddenPattern(NamedTuple):
    """`words` are those of the contract, `enforced_by` says what stops it here."""

    name: ForbiddenName
    words: str
    enforced_by: str


_TABLE: Final = (
    ForbiddenPattern(
        "worker_exits_after_push_before_ci",
        "must wait for CI",
        "the server watches the run of the pushed commit and the task stays open until it is "
        "proven; a red run is handed to the worker, or to the next one",
    ),
    ForbiddenPattern(
        "orchestrator_tracks_awaiting_ci",
        "worker's responsibility",
        "a pushed task stays with its assignment as PUSHED_TO_CI; there is no list of tasks that "
        "await CI",
    ),
    ForbiddenPattern(
        "done_without_ci_url",
        "must prove CI passed",
        "a DONE report without a CI run is refused, and the server asks the CI itself",
    ),
    ForbiddenPattern(
        "assuming_radicle_synced",
        "must verify radicle-push job",
        "every must-succeed job is looked up by name on the commit; only success will do",
    ),
    ForbiddenPattern(
        "parallel_dependent_workers",
        "locks prevent this",
        "the repo graph is asked in the transaction that spawns",
    ),
    ForbiddenPattern(
        "upstream_worker_while_downstream_active",
        "would break in-flight work",
        "the lock rule no_upstream_while_downstream_active",
    ),
    ForbiddenPattern(
        "downstream_worker_while_upstream_active",
        "CI would fail on stale deps",
        "the lock rule no_downstream_while_upstream_active",
    ),
    ForbiddenPattern(
        "querying_all_ci_runs",
        "only track YOUR commit's run by SHA",
        "providers are asked for one SHA, and runs of other commits are passed over",
    ),
    ForbiddenPattern(
        "caching_old_run_ids",
        "forget old runs, track only current",
        "an assignment has one tracked SHA, which a new push replaces",
    ),
    ForbiddenPattern(
        "push_all_repos_at_once",
        "must follow dependency order",
        "a repo starts after its dependencies: phases bottom-up, and the locks",
    ),
    ForbiddenPattern(
        "triggering_dependent_ci_before_dependency_green",
        "wait for deps to pass first",
        "a lock is released on proven DONE alone, and a red dependency pauses its dependents",
    ),
    ForbiddenPattern(
        "infinite_permission_retry_loop",
        "suicide after 2 permission denials, don't waste 200k+ tokens",
        "the second denial of a tool in a row ends the worker",
    ),
    ForbiddenPattern(
        "embedding_ci_context_at_spawn",
        "use lazy-load rule, workers load ci-worker.cspec at PUSHED_TO_CI",
        "a spawn prompt with a CI address, command or token is refused",
    ),
    ForbiddenPattern(
        "verbose_worker_prompt",
        "use compact_prompt (~100 tokens), not verbose (~400 tokens)",
        "the spawn prompt is built to its token budget",
    ),
)

FORBIDDEN: Final[dict[ForbiddenName, ForbiddenPattern]] = {one.name: one for one in _TABLE}


def violation_of(
    name: ForbiddenName, detail: str, *, field: str | None = None, hint: str | None = None
) -> ContractViolations:
    """The error that names the pattern."""
    return ContractViolations(
        f"{detail} ({name}: VIOLATION - {FORBIDDEN[name].words})",
        field=field,
        hint=hint,
        facts={"forbidden": name},
    )
