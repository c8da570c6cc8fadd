"""Honest work is accepted with default settings, whatever its tests look like."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.e2e.cheats.honest_changes import PROJECTS
from tests.e2e.cheats.honest_projects import Project
from tests.repos import Repo
from tests.verifying import verify

pytestmark = pytest.mark.requirement("OWN-13", "HO-04")


class Shared(NamedTuple):
    """One repository with a branch for each project, and the folder of one verifier: the projects
    share what is copied from the one to the other."""

    repo: Repo
    folder: Path


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Shared:
    folder = tmp_path_factory.mktemp("honest")
    return Shared(Repo(folder / "repo"), folder)


def commit(repo: Repo, files: dict[str, str | bytes] | dict[str, str | bytes | None]) -> str:
    for name, content in files.items():
        path = repo.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
    return repo.commit("files")


@pytest.mark.parametrize("name", PROJECTS)
def test_honest_work_is_accepted(shared: Shared, name: str) -> None:
    project: Project = PROJECTS[name]
    repo = shared.repo
    branch = f"task-{list(PROJECTS).index(name)}"
    repo.git("checkout", "--quiet", "-b", branch, repo.base)
    base = commit(repo, project.base)
    commit(repo, project.work)
    job = repo.job(
        branch=branch,
        base_commit=base,
        target=None,
        owned=list(project.work),
        readonly=[],
        criteria=[project.criterion],
    )
    (verdict,) = verify(shared.folder, job)
    criteria = [check for check in verdict.checks if check.check == "criterion"]
    assert verdict.accepted, (verdict.violations, criteria)
    assert [check.outcome for check in criteria] == ["passed"]
