"""A person moves the branch of a policy's repo during a run: accepted work that no longer merges is
landed by a merge task, which takes over the lock of the work."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.e2e.runs.test_contract import GATE, ContractProject
from tests.plan_runs import task
from tests.waiting import wait_until


@pytest.mark.requirement("OWN-01", "CC-05")
def test_a_merge_task_takes_over_the_repo_lock_of_the_original_task(tmp_path: Path) -> None:
    project = ContractProject(tmp_path)
    gate = shlex.join(["python3", "-c", GATE, str(project.marks)])
    project.policy(test="python3 -m unittest", gate=gate)
    owned = ["one.py", "test_one.py", "shared.txt"]
    project.plan(task("one", do="shared", files_owned=owned), task("after", "one"))
    run = project.start("--policy", "shiftboss.yaml")
    started = project.marks / "ci.started"
    wait_until(started.exists, "CI has started", 60)
    (project.repo / "shared.txt").write_text("person\n")
    project.git("commit", "--quiet", "--all", "-m", "By a person")
    (project.marks / "ci.free").touch()
    outcome = run.outcome()
    assert outcome["done"], outcome
    assert {"one", "after"} <= set(outcome["landed"])
    assert sorted((project.repo / "shared.txt").read_text().split()) == ["one", "person"]

    record = project.record()
    (own,) = record.of("one", "repo_locked")
    (passed,) = record.of("one-merge-1", "repo_locked")
    assert (own.data.get("passed_from"), passed.data["passed_from"]) == (None, "one")
    assert record.of("one", "repo_released") == []
    (released,) = record.of("one-merge-1", "repo_released")
    (merge_landed,) = record.of("one-merge-1", "task_landed")
    (landed,) = record.of("one", "task_landed")
    assert merge_landed.event_id < released.event_id
    assert merge_landed.event_id < landed.event_id
    (after,) = record.of("after", "repo_locked")
    assert released.event_id < after.event_id, "no other task had the repo in between"
    (repo,) = record.repos
    assert (repo["locked_by"], repo["ci"]) == (None, "green")
