"""The folders of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from shiftboss.errors import InvalidRequest
from shiftboss.orchestrator.run.run_context import RunPaths


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
