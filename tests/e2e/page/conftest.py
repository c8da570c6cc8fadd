"""A server, a browser, and pages that fail the test if something is wrong in them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from tests.client import Client
from tests.e2e.page.browsing import Chromium, Watched
from tests.e2e.page.page_operator import Operator
from tests.running import RunningServer
from tests.sqlite_files import make_sqlite_file


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    chromium = Chromium()
    yield chromium
    chromium.close()


@pytest.fixture(scope="session")
def page_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """One server for all tests of the page that do not stop it."""
    path = tmp_path_factory.mktemp("page") / "shiftboss.db"
    make_sqlite_file(path)
    running = RunningServer(path)
    try:
        yield running.start()
    finally:
        running.close()


@pytest.fixture
def operator(page_server: RunningServer) -> Iterator[Operator]:
    """Fills `page_server`. No swarm is left when the test ends."""
    operator = Operator(page_server)
    yield operator
    operator.delete_swarms()
    operator.close()


@pytest.fixture
def watched(
    chromium: Chromium, page_server: RunningServer, operator: Operator
) -> Iterator[Watched]:
    """A browser context, which is checked when the test ends. It is closed before `operator`
    deletes the swarms that its pages show."""
    with chromium.in_use() as browser:
        watched = Watched(browser, page_server.url)
        try:
            yield watched
        finally:
            watched.close()
        watched.check()


@pytest.fixture
def visitor(watched: Watched, operator: Operator) -> Page:
    """A page of somebody who is not logged in."""
    return watched.page()


@pytest.fixture
def page(watched: Watched, operator: Operator) -> Page:
    """A page of the operator."""
    page = watched.page()
    operator.log_in(page)
    return page


@pytest.fixture
def client(page_server: RunningServer) -> Iterator[Client]:
    client = Client(page_server.url)
    yield client
    client.close()
