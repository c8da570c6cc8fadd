"""What the acceptance tests share."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.bus.bus_calls import InSwarm
from tests.running import RunningServer
from tests.sqlite_files import make_sqlite_file


@pytest.fixture(autouse=True)
def no_courier(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process outlives the tests."""
    monkeypatch.setenv("SHIFTBOSS_COURIER", "0")


@pytest.fixture
def couriers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Couriers may still run: they have nothing left to deliver, and exit."""
    monkeypatch.setenv("SHIFTBOSS_COURIER", "1")
    yield
    shutil.rmtree(tmp_path / ".spellbook", ignore_errors=True)


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """One server for all tests of a module that do not stop it."""
    path = tmp_path_factory.mktemp("shared") / "shiftboss.db"
    make_sqlite_file(path)
    running = RunningServer(path)
    try:
        yield running.start()
    finally:
        running.close()


@pytest.fixture
def bus(shared_server: RunningServer) -> Iterator[InSwarm]:
    """The bus of a new swarm."""
    client = InSwarm(shared_server.url)
    yield client
    client.close()
