"""What the acceptance tests share."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.acceptance.bus.bus_calls import InSwarm
from tests.acceptance.shared_servers import client_of_shared
from tests.client import Client
from tests.postgres import Postgres
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


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def shared_any_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    """The same, once on each store."""
    with ExitStack() as ended:
        folder = tmp_path_factory.mktemp("shared")
        if request.param == "sqlite":
            database = str(folder / "shiftboss.db")
            make_sqlite_file(folder / "shiftboss.db")
        else:
            postgres: Postgres = request.getfixturevalue("postgres")
            database = ended.enter_context(postgres.database())
        running = RunningServer(database, state=str(folder))
        ended.callback(running.close)
        yield running.start()


@pytest.fixture
def shared_client(shared_server: RunningServer) -> Iterator[Client]:
    """A client of `shared_server`, which has no swarm when the test begins."""
    with client_of_shared(shared_server) as client:
        yield client


@pytest.fixture
def shared_any_client(shared_any_server: RunningServer) -> Iterator[Client]:
    """The same of `shared_any_server`."""
    with client_of_shared(shared_any_server) as client:
        yield client


@pytest.fixture
def bus(shared_server: RunningServer) -> Iterator[InSwarm]:
    """The bus of a new swarm."""
    client = InSwarm(shared_server.url)
    yield client
    client.close()
