"""What the tests share: databases, running servers, clients."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.client import Client
from tests.fork_server_process import NEW_CHILDREN
from tests.memory_disk import leave_memory_disk, use_memory_disk
from tests.plain_python import use_plain_python
from tests.postgres import Postgres, postgres_for_tests
from tests.running import RunningServer
from tests.scheduling import long_ones_first
from tests.sqlite_files import make_sqlite_file

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A suite that was started in the background ignores Ctrl-C, and so would all that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Rewriting the assertions of all modules takes every worker seconds, so they are kept.
sys.dont_write_bytecode = False

use_memory_disk()
use_plain_python()
# No test notifies the person who runs it, whatever that person has set up.
os.environ["SHIFTBOSS_NOTIFY"] = "off"

# No test relies on a quiet machine, or on luck: generated examples are the same every time.
settings.register_profile(
    "any_machine",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
# `make fuzz`: many examples, and other ones every time.
settings.register_profile(
    "fuzz", settings.get_profile("any_machine"), max_examples=3000, derandomize=False
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "any_machine"))


# After the time limit.
AGAIN_SECONDS = 30.0
# Their parameter is the store.
STORE_FIXTURES = ("store_address", "shared_any_server")

# While tests are collected nothing is garbage, and what is collected never is. Looking for it would
# take a third of the time of the collection.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_sessionfinish(exitstatus: int) -> None:
    """The folders of tests that failed are kept."""
    if exitstatus == pytest.ExitCode.OK:
        leave_memory_disk()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that need PostgreSQL: `-m "not postgres"` does without. Order them."""
    for item in items:
        assert isinstance(item, pytest.Function)
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        if "postgres" in item.fixturenames or "postgres" in map(parameters.get, STORE_FIXTURES):
            item.add_marker("postgres")
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    if workers > 1:
        items[:] = long_ones_first(items, workers)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """The time limit interrupts a test once. What is torn down then may hang as well, and code that
    swallows the interruption goes on, so it is interrupted again and again."""
    left, _ = signal.getitimer(signal.ITIMER_REAL)
    signal.setitimer(signal.ITIMER_REAL, left, AGAIN_SECONDS)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Asynchronous tests (`@pytest.mark.anyio`) run on asyncio."""
    return "asyncio"


@pytest.fixture
def new_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a server or a run of the test starts is started anew, and not forked."""
    monkeypatch.setenv(NEW_CHILDREN, "1")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server of this test process."""
    with postgres_for_tests() as server:
        yield server


@pytest.fixture
def postgres_url(postgres: Postgres) -> Iterator[str]:
    """The address of a fresh database with the schema in it."""
    with postgres.database() as url:
        yield url


@pytest.fixture
def sqlite_path(tmp_path: Path) -> str:
    """The path of a fresh SQLite file with the schema in it."""
    path = tmp_path / "shiftboss.db"
    make_sqlite_file(path)
    return str(path)


@pytest.fixture(params=["sqlite", "postgres"])
def store_address(request: pytest.FixtureRequest) -> str:
    """An empty database of each kind: a file path, then a URL."""
    name = {"sqlite": "sqlite_path", "postgres": "postgres_url"}[request.param]
    address: str = request.getfixturevalue(name)
    return address


@pytest.fixture
def server(sqlite_path: str) -> Iterator[RunningServer]:
    """The real server on a SQLite file."""
    yield from _running(sqlite_path)


@pytest.fixture
def any_server(store_address: str) -> Iterator[RunningServer]:
    """The real server, once on each store."""
    yield from _running(store_address)


def _running(address: str) -> Iterator[RunningServer]:
    running = RunningServer(address)
    try:
        yield running.start()
    finally:
        running.close()


@pytest.fixture
def client(server: RunningServer) -> Iterator[Client]:
    """A client of `server`."""
    yield from _speaking_to(server)


@pytest.fixture
def any_client(any_server: RunningServer) -> Iterator[Client]:
    """A client of `any_server`."""
    yield from _speaking_to(any_server)


def _speaking_to(running: RunningServer) -> Iterator[Client]:
    client = Client(running.url)
    yield client
    client.close()
