"""The fourteen forbidden patterns of the completion contract, by name."""

from __future__ import annotations

from typing import Final, Literal

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

# What the contract says about each pattern; errors quote it.
FORBIDDEN: Final[dict[ForbiddenName, str]] = {
    "worker_exits_after_push_before_ci": "must wait for CI",
    "orchestrator_tracks_awaiting_ci": "worker's responsibility",
    "done_without_ci_url": "must prove CI passed",
    "assuming_radicle_synced": "must verify radicle-push job",
    "parallel_dependent_workers": "locks prevent this",
    "upstream_worker_while_downstream_active": "would break in-flight work",
    "downstream_worker_while_upstream_active": "CI would fail on stale deps",
    "querying_all_ci_runs": "only track YOUR commit's run by SHA",
    "caching_old_run_ids": "forget old runs, track only current",
    "push_all_repos_at_once": "must follow dependency order",
    "triggering_dependent_ci_before_dependency_green": "wait for deps to pass first",
    "infinite_permission_retry_loop": (
        "suicide after 2 permission denials, don't waste 200k+ tokens"
    ),
    "embedding_ci_context_at_spawn": (
        "use lazy-load rule, workers load ci-worker.cspec at PUSHED_TO_CI"
    ),
    "verbose_worker_prompt": "use compact_prompt (~100 tokens), not verbose (~400 tokens)",
}


def violation_of(
    name: ForbiddenName, detail: str, *, field: str | None = None, hint: str | None = None
) -> ContractViolations:
    """The error for work that follows a forbidden pattern."""
    return ContractViolations(
        f"{detail} ({name}: VIOLATION - {FORBIDDEN[name]})",
        field=field,
        hint=hint,
        facts={"forbidden": name},
    )
