"""Logging in with a link that works once; looking without it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.page.browsing import Watched
from tests.e2e.page.page_operator import Operator

pytestmark = pytest.mark.requirement("OWN-04")


def test_login_link_works_once_and_leaves_nothing_in_the_address(
    watched: Watched, visitor: Page, operator: Operator
) -> None:
    link = operator.login_link()
    visitor.goto(link)
    expect(visitor.get_by_role("heading", name="Runs")).to_be_visible()
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
