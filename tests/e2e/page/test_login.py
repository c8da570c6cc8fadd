"""Logging in with a link that works once; looking without it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.page.axe import violations
from tests.e2e.page.browsing import Chromium, Watched
from tests.e2e.page.page_operator import Operator
from tests.running import RunningServer

pytestmark = pytest.mark.requirement("OWN-04")


def test_login_link_works_once_and_leaves_nothing_in_the_address(
    watched: Watched, visitor: Page, operator: Operator
) -> None:
    link = operator.login_link()
    visitor.goto(link)
    expect(visitor.get_by_role("heading", name="Runs", exact=True)).to_be_visible()
    code = link.partition("#")[2]
    assert code not in visitor.url
    cookies = watched.context.cookies()
    assert [(cookie["httpOnly"], cookie["sameSite"]) for cookie in cookies] == [(True, "Strict")]
    assert visitor.evaluate("document.cookie") == ""

    watched.expect("401")
    visitor.goto("about:blank")
    visitor.goto(link)
    expect(visitor.get_by_role("heading", name="This link does not work any more")).to_be_visible()
    expect(visitor.get_by_text("shiftboss open", exact=True)).to_be_visible()


def test_visitor_may_look_but_is_offered_nothing_to_do(visitor: Page, operator: Operator) -> None:
    swarm = operator.create_swarm("login-1", "A run to look at")
    operator.add_tasks(swarm, {"a": "Paint the fence"})
    operator.start(swarm, "painter")
    operator.ask(swarm, "painter", "Which colour?")

    visitor.goto("/#/inbox")
    expect(visitor.get_by_text("Which colour?")).to_be_visible()
    expect(visitor.get_by_role("note")).to_contain_text("shiftboss open")
    expect(visitor.get_by_role("button", name="Send answer")).to_have_count(0)
    # The command says how to answer in a terminal.
    expect(visitor.locator(".item-command code")).to_contain_text("shiftboss questions answer")


@pytest.fixture
def closed_server(tmp_path: Path) -> Iterator[RunningServer]:
    """Nobody reads anything without a token."""
    running = RunningServer(tmp_path / "shiftboss.db", requires_tokens=True)
    try:
        yield running.start()
    finally:
        running.close()


@pytest.fixture
def closed(chromium: Chromium, closed_server: RunningServer) -> Iterator[Watched]:
    with chromium.in_use() as browser:
        watched = Watched(browser, closed_server.url)
        try:
            yield watched
        finally:
            watched.close()
        watched.check()


def test_visitor_who_may_read_nothing_is_told_how_to_log_in(closed: Watched) -> None:
    page = closed.page()
    page.goto("/")
    expect(page.get_by_role("heading", name="Log in to see anything here")).to_be_visible()
    expect(page.get_by_text("shiftboss open", exact=True)).to_be_visible()
    expect(page.get_by_role("navigation", name="Views").get_by_role("link")).to_have_count(0)
    assert violations(page) == []


def test_page_says_that_its_session_has_ended_and_goes_on_after_the_next_login(
    closed: Watched, closed_server: RunningServer
) -> None:
    closed.expect("401")
    with closing(Operator(closed_server)) as operator:
        swarm = operator.create_swarm("login-2", "A run to look at")
        page = closed.page()
        operator.log_in(page)
        page.goto(f"/#/s/{swarm}/board")
        expect(page.get_by_role("heading", name="No tasks yet")).to_be_visible()
        operator.operate("revoke_token", token="operator")
        note = page.get_by_role("note")
        expect(note).to_contain_text("You are no longer logged in")
        expect(page.get_by_text("Connection lost")).to_have_count(0)

        operator.log_in(closed.page())
        expect(note).to_have_count(0)
        operator.add_tasks(swarm, {"a": "Alpha"})
        expect(page.get_by_role("link", name="Alpha")).to_be_visible()
