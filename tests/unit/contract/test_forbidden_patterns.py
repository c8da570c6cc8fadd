"""The forbidden patterns of the completion contract, by name."""

from __future__ import annotations

from typing import get_args

import pytest

from shiftboss.errors import ContractViolations
from shiftboss.rules.contract.forbidden_patterns import FORBIDDEN, ForbiddenName, violation_of

NAMES: dict[ForbiddenName, str] = {
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


def test_all_fourteen_patterns_are_listed_with_the_contracts_wording() -> None:
    assert FORBIDDEN == NAMES
    assert len(FORBIDDEN) == 14
    assert set(FORBIDDEN) == set(get_args(ForbiddenName))


@pytest.mark.parametrize("name", NAMES)
def test_each_pattern_can_be_named_in_an_error(name: ForbiddenName) -> None:
    error = violation_of(name, "this was done", field="repo", hint="do that")
    assert isinstance(error, ContractViolations)
    assert error.detail == f"this was done ({name}: VIOLATION - {NAMES[name]})"
    assert (error.field, error.hint, error.facts) == ("repo", "do that", {"forbidden": name})
