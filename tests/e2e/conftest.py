"""The project that work trees and landings are tested with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shiftboss.orchestrator.landing.work_landing import WorkLanding
from tests.e2e.worktrees.worktree_fixtures import Project, user_settings


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    for name, value in user_settings(tmp_path).items():
        monkeypatch.setenv(name, value)
    return Project(tmp_path)


@pytest.fixture
async def work_landing(tmp_path: Path) -> AsyncIterator[WorkLanding]:
    work_landing = WorkLanding(tmp_path / "landing", tmp_path / "state")
    yield work_landing
    await work_landing.close()
