"""A person follows a run in the browser, from its first task to the last one that lands."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from shiftboss.system.state_folder import ServerRecord, read_server_file
from tests.client import Client
from tests.commands import Running
from tests.e2e.page.browsing import Chromium, Watched
from tests.e2e.page.shop.project import QUESTION, SWARM, TITLES, ShopProject, shop_task
from tests.e2e.runs.operator_day import running_run
from tests.plan_runs import FEWER_RUNS
from tests.running import RunningServer
from tests.waiting import wait_until

START_SECONDS = 60.0
ANSWER = "Back to the basket."


@pytest.fixture
def project(tmp_path: Path) -> ShopProject:
    project = ShopProject(tmp_path)
    project.write_plan(
        shop_task("tokens"),
        shop_task("limits"),
        shop_task("mail", "tokens"),
        shop_task("audit"),
        shop_task("sessions", "mail", review="required"),
        workers=2,
        repos={"shop": {"path": "shop", "verification": {"scope_requests": "ask", **FEWER_RUNS}}},
    )
    return project


@pytest.fixture
def run(project: ShopProject) -> Iterator[Running]:
    with running_run(project) as run:
        wait_until(lambda: server_of(project), "the run has a server", START_SECONDS)
        yield run


@pytest.fixture
def watched(chromium: Chromium, project: ShopProject, run: Running) -> Iterator[Watched]:
    """A browser context, which is checked when the test ends."""
    with chromium.in_use() as browser:
        watched = Watched(browser, address_of(project))
        # The test stops the server twice.
        watched.expect(r"ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_EMPTY_RESPONSE")
        try:
            yield watched
        finally:
            watched.close()
        watched.check()


def server_of(project: ShopProject) -> ServerRecord | None:
    return read_server_file(project.folder / ".shiftboss")


def address_of(project: ShopProject) -> str:
    server = server_of(project)
    assert server is not None
    return server.address


def column(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True)


def card(page: Page, column_name: str, task: str) -> Locator:
    return column(page, column_name).get_by_role("link", name=TITLES[task])


def item(page: Page, kind: str, task: str) -> Locator:
    return page.get_by_role("article", name=f"{kind}: {TITLES[task]}", exact=True)


def view(page: Page, name: str) -> None:
    page.get_by_role("navigation", name="Views").get_by_role("link", name=name).click()


@pytest.mark.timeout(300)
@pytest.mark.requirement("OWN-04", "CC-18")
def test_run_is_followed_and_decided_from_first_task_to_landed(
    project: ShopProject, run: Running, watched: Watched
) -> None:
    client = Client(address_of(project))
    page = watched.page()
    page.goto(project.login_link())
    view(page, "Board")
    grant_files(page, client)
    crash_and_return(page, project)
    answer_question(page, client)
    read_refusal(page)
    approve_work(page, client)
    client.close()
    assert run.end().code == 0
    assert sorted(project.landed()[1:]) == sorted(
        TITLES[name] for name in ("tokens", "limits", "mail", "audit", "sessions")
    )
    look_back(page, project)
