"""`shiftboss run` on a repo of a policy whose branch somebody else moves: accepted work that does
not fit any more is brought in by a merge task, which has the lock of the work."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.e2e.runs.test_contract import GATE, ContractRoom
from tests.plan_runs import task
from tests.waiting import wait_until


@pytest.mark.requirement("OWN-01", "CC-05")
def test_work_that_does_not_fit_is_merged_under_the_lock_that_it_had(tmp_path: Path) -> None:
    room = ContractRoom(tmp_path)
    gate = shlex.join(["python3", "-c", GATE, str(room.marks)])
    room.policy(test="python3 -m unittest", gate=gate)
    owned = ["one.py", "test_one.py", "shared.txt"]
    room.plan(task("one", do="shared", files_owned=owned), task("after", "one"))
    run = room.start("--policy", "shiftboss.yaml")
    begun = room.marks / "ci.begun"
    wait_until(begun.exists, "CI has begun", 60)
    (room.repo / "shared.txt").write_text("person\n")
    room.git("commit", "--quiet", "--all", "-m", "Of a person")
    (room.marks / "ci.free").touch()
    outcome = run.outcome()
    assert outcome["done"], outcome
    assert {"one", "after"} <= set(outcome["landed"])
    assert sorted((room.repo / "shared.txt").read_text().split()) == ["one", "person"]

    record = room.record()
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
    assert released.event_id < after.event_id, "nobody else had the repo in between"
    (repo,) = record.repos
    assert (repo["locked_by"], repo["ci"]) == (None, "green")
