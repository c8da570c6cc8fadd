"""What the acceptance tests share."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def no_courier(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process outlives the tests."""
    monkeypatch.setenv("SHIFTBOSS_COURIER", "0")


@pytest.fixture
def couriers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Couriers are allowed. One that is left has nothing to deliver any more, and ends."""
    monkeypatch.setenv("SHIFTBOSS_COURIER", "1")
    yield
    shutil.rmtree(tmp_path / ".spellbook", ignore_errors=True)
