"""The folders of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shiftboss.cli.commands.runs.background import NotRunning, RunFolder
from shiftboss.errors import InvalidRequest
from shiftboss.orchestrator.run.run_context import RunPaths
from shiftboss.orchestrator.run.run_files import write_result
from shiftboss.orchestrator.run.run_lock import hold_run_lock


def test_landing_checkouts_are_inside_the_folder_of_the_worktrees(tmp_path: Path) -> None:
    paths = RunPaths.of(tmp_path / "state", "s", tmp_path / "mine" / "trees")
    assert paths.landing.is_relative_to(tmp_path / "mine" / "trees")


@pytest.mark.parametrize(
    ("name", "is_linked"),
    [("", False), ("a/b", False), (".git/trees", False), ("../link/trees", False), ("a/b", True)],
)
def test_worktrees_inside_a_repository_are_refused(
    tmp_path: Path, name: str, is_linked: bool
) -> None:
    repo = tmp_path / "repo"
    repo.mkdir()
    (tmp_path / "link").symlink_to(repo)
    if is_linked:
        (repo / ".git").write_text("gitdir: ../elsewhere\n")
    else:
        (repo / ".git").mkdir()
    with pytest.raises(InvalidRequest, match="inside the repository") as refused:
        RunPaths.of(tmp_path / "state", "s", repo / name)
    assert refused.value.field == "trees"
    assert "outside" in (refused.value.hint or "")


@pytest.mark.requirement("OWN-12")
def test_attaching_to_a_run_that_was_killed_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    with hold_run_lock(folder, "s", "run"):
        left_behind = json.loads((folder / "lock").read_text())
    run = RunFolder(folder, Path("plan.yaml"), [])
    with pytest.raises(NotRunning, match="no run of the swarm s is running"):
        run.attach(as_json=False)
    (folder / "lock").write_text(json.dumps(left_behind | {"started": 1}))
    write_result(folder, 0, {"done": True})  # of an earlier run
    with pytest.raises(NotRunning, match="was killed") as refused:
        run.attach(as_json=False)
    assert refused.value.hint == "continue it: shiftboss run plan.yaml"
