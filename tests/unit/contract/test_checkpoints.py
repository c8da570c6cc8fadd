"""The content of a checkpoint: reports, git, decisions."""

from __future__ import annotations

from typing import Any

import pytest

from shiftboss.rules.contract.checkpoints import (
    COMMITS_KEPT_MAX,
    DECISION_CHARACTERS_MAX,
    DECISIONS_KEPT_MAX,
    AttemptProgress,
    WorkSinceBase,
    answered,
    checkpoint_body,
    with_decisions,
    with_work,
)

pytestmark = pytest.mark.requirement("CC-11")


def progress(**report: object) -> AttemptProgress:
    return AttemptProgress(
        worker="w",
        repo="alphavm",
        task_id="A001",
        milestone="WORKING",
        at_ms=1,
        commits=["c1"],
        ci_runs=[],
        last_report=report,
        paused=None,
    )


def test_lists_continue_those_of_the_previous_checkpoint() -> None:
    first = checkpoint_body(progress(description="Fees"), {})
    first = with_decisions(
        with_work(first, WorkSinceBase(["c1", "c2"], ["a.rs"])), ["u128 amounts"]
    )
    fixing = progress(failed_job="test", diagnosis="no mock", affected_files=["b.rs"])
    second = checkpoint_body(fixing, first)
    assert (second["commits"], second["files_modified"]) == (["c1", "c2"], ["a.rs", "b.rs"])
    assert second["decisions_made"] == ["u128 amounts", "test: no mock"]
    assert checkpoint_body(fixing, second)["decisions_made"] == second["decisions_made"]
    assert second["context_summary"] == "no mock"


def test_what_git_knows_replaces_what_was_reported() -> None:
    body = checkpoint_body(progress(diagnosis="x", affected_files=["guess.rs"]), {})
    assert with_work(body, WorkSinceBase(["c2"], ["real.rs"]))["files_modified"] == ["real.rs"]


def test_a_checkpoint_stays_small() -> None:
    body: dict[str, Any] = checkpoint_body(progress(), {})
    body = with_decisions(body, [f"decision {number}" for number in range(200)])
    body = with_work(body, WorkSinceBase([f"c{number}" for number in range(500)], []))
    assert body["decisions_made"][-1] == "decision 199"
    assert len(body["decisions_made"]) == DECISIONS_KEPT_MAX
    assert (len(body["commits"]), body["commits"][-1]) == (COMMITS_KEPT_MAX, "c499")
    long = with_decisions({}, [answered("why " * 1000, "yes")])["decisions_made"][0]
    assert len(long) <= DECISION_CHARACTERS_MAX
    assert long.endswith(": yes")
