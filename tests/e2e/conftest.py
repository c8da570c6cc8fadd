"""The ground that trees and landings are tested on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shiftboss.orchestrator.landing.landing import Landing
from tests.e2e.worktrees.worktree_fixtures import Ground, user_settings


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    for name, value in user_settings(tmp_path).items():
        monkeypatch.setenv(name, value)
    return Ground(tmp_path)


@pytest.fixture
async def landing(tmp_path: Path) -> AsyncIterator[Landing]:
    landing = Landing(tmp_path / "landing")
    yield landing
    await landing.close()
