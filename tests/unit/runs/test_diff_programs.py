"""Showing the work of a task runs no program that the repository or an agent has chosen."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import pytest

from shiftboss.orchestrator.git.task_diff import diff_command, find_work
from tests.repos import Repo

pytestmark = [pytest.mark.requirement("OWN-12"), pytest.mark.anyio]


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """Its settings and attributes run `touch executed` for every file, in all ways that git has."""
    repo = Repo(tmp_path / "repo")
    touch = f"touch {tmp_path / 'executed'}; cat"
    for name in ("bad", "a.b", "x=y"):
        repo.git("config", f"filter.{name}.clean", touch)
        repo.git("config", f"filter.{name}.smudge", touch)
        repo.git("config", f"filter.{name}.required", "true")
    repo.git("config", "filter.long.process", touch)
    repo.git("config", "diff.bad.command", touch)
    repo.git("config", "diff.bad.textconv", touch)
    repo.git("config", "core.pager", touch)
    return repo


def handoff_of(repo: Repo) -> tuple[dict[str, Any], dict[str, Any]]:
    handoff = {
        "repo": str(repo.path),
        "base_commit": repo.base,
        "branch": "task",
        "last_claim": None,
    }
    return handoff, {"bead_id": "a", "landed_commit": None}


@pytest.mark.parametrize("filter_name", ["bad", "a.b", "x=y", "long"])
async def test_a_live_work_tree_is_shown_without_filters(
    repo: Repo, tmp_path: Path, filter_name: str
) -> None:
    attributes = f"* filter={filter_name} diff=bad\n"
    repo.write({".gitattributes": attributes, "README.md": "# Changed\n", "new.txt": "new\n"})
    work = await find_work(*handoff_of(repo), of_claim=False)
    assert work.kind == "work tree"
    async with diff_command(work) as command:
        shown = await asyncio.to_thread(
            subprocess.check_output,
            command.argv("--color=never"),
            cwd=command.folder,
            env=command.environment,
        )
    assert b"+# Changed" in shown
    assert b"+new" in shown
    assert not (tmp_path / "executed").exists()


async def test_missing_objects_are_not_fetched(repo: Repo) -> None:
    work = await find_work(*handoff_of(repo), of_claim=False)
    async with diff_command(work) as command:
        assert command.environment["GIT_NO_LAZY_FETCH"] == "1"
