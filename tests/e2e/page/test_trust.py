"""Every view, filled with hostile text, in both themes and on both kinds of screens.

Text stays text, nothing is wider than the screen, and axe-core finds nothing serious.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.page import hostile_swarm
from tests.e2e.page.axe import violations
from tests.e2e.page.browsing import Chromium, Watched
from tests.e2e.page.page_operator import Operator
from tests.plan_runs import FEWER_RUNS
from tests.repos import Repo
from tests.running import RunningServer

pytestmark = pytest.mark.requirement("OWN-04")

DESKTOP: Final = {"width": 1280, "height": 900}
PHONE: Final = {"width": 390, "height": 844}
_MARKS: Final = (
    r"/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/"
)
_STATE: Final = """() => {
  const main = document.getElementById("main");
  const count = (selector) => document.querySelectorAll(selector).length;
  const addresses = [...document.querySelectorAll("a[href]")].map((link) =>
    new URL(link.getAttribute("href"), location.href));
  return {
    hacked: window.hacked ?? null,
    foreign: count("#main script, #main iframe, #main object, #main img"),
    scripted: count("[onload], [onerror]"),
    elsewhere: addresses.filter((address) => address.origin !== location.origin).length,
    wide: Math.max(0, document.documentElement.scrollWidth - innerWidth,
      main.scrollWidth - main.clientWidth),
    marks: MARKS.test(document.body.textContent + document.title),
  };
}""".replace("MARKS", _MARKS)
_HARMLESS: Final = {
    "hacked": None,
    "foreign": 0,
    "scripted": 0,
    "elsewhere": 0,
    "wide": 0,
    "marks": False,
}


@pytest.fixture(scope="module")
def hostile(
    page_server: RunningServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operator]:
    operator = Operator(page_server)
    hostile_swarm.fill(operator, page_server.state_folder, tmp_path_factory.mktemp("hostile"))
    yield operator
    operator.delete_swarms()
    operator.close()


@pytest.fixture
def watched(chromium: Chromium, page_server: RunningServer, hostile: Operator) -> Iterator[Watched]:
    with chromium.in_use() as browser:
        watched = Watched(browser, page_server.url, viewport=DESKTOP, reduced_motion="reduce")
        try:
            yield watched
        finally:
            watched.close()
    watched.check()


def test_views_keep_hostile_text_as_text_and_are_accessible(
    watched: Watched, hostile: Operator
) -> None:
    # The browser itself logs answers like these, which belong to the addresses that do not exist.
    watched.expect(r"status of (404|422)")
    page = watched.page()
    hostile.log_in(page)
    found = {
        route: _problems_of(page, route, shown) for route, shown in hostile_swarm.ROUTES.items()
    }
    assert not {route: problems for route, problems in found.items() if problems}


def _problems_of(page: Page, route: str, shown: str) -> list[str]:
    """The view is opened on a large screen with light colours, then changes under the reader."""
    _set(page, DESKTOP, "light")
    # What the last view has shown must not count.
    page.goto("/#/nowhere")
    expect(page.get_by_role("heading", name="Not found")).to_be_attached()
    page.goto(route)
    expect(page.locator("#main")).to_contain_text(shown, use_inner_text=False)
    expect(page.locator("#main [aria-busy=true]")).to_have_count(0)
    expect(page.locator("h1").first).to_be_attached()
    problems = _unsafe(page) + violations(page)
    _set(page, DESKTOP, "dark")
    problems += violations(page, only=("color-contrast",))
    _set(page, PHONE, "dark")
    return problems + _unsafe(page) + violations(page)


def _set(page: Page, size: Any, scheme: Any) -> None:
    page.set_viewport_size(size)
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")


def _unsafe(page: Page) -> list[str]:
    state = page.evaluate(_STATE)
    return [f"{name}: {state[name]}" for name, value in _HARMLESS.items() if state[name] != value]


def test_dialogs_and_the_login_are_accessible(watched: Watched, hostile: Operator) -> None:
    page = watched.page()
    page.goto("/login")
    expect(page.get_by_role("heading", level=1)).to_contain_text("no login code")
    assert violations(page) == []
    hostile.log_in(page)
    page.goto(f"/#/s/{hostile_swarm.SWARM}/board")
    link = page.locator("a.card-link").first
    link.focus()
    for keys, name in (("?", "Keys"), ("Control+k", "Commands"), ("s", "Switch run")):
        page.keyboard.press(keys)
        expect(page.get_by_role("dialog", name=name)).to_be_visible()
        assert violations(page) == [], name
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        expect(link).to_be_focused()
    # The ring is around the whole card.
    card = page.locator("article.card").filter(has=page.locator("a:focus-visible"))
    expect(card).to_have_css("outline-style", "solid")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_floats_over_a_view_is_accessible(
    watched: Watched, hostile: Operator, scheme: Any
) -> None:
    """The questions before an action, the list of commands, and what is said after an action."""
    page = watched.page()
    hostile.log_in(page)
    _set(page, PHONE if scheme == "dark" else DESKTOP, scheme)
    asked = {
        f"task/{hostile_swarm.ACCEPTED}": ["Approve…", "Reject…"],
        f"task/{hostile_swarm.ASKING}": ["Pause task…", "Set budget…", "Cancel task…"],
    }
    for route, names in asked.items():
        page.goto(f"/#/s/{hostile_swarm.SWARM}/{route}")
        for name in names:
            button = page.get_by_role("button", name=name)
            button.click()
            dialog = page.get_by_role("dialog")
            expect(dialog).to_be_visible()
            assert violations(page) + _unsafe(page) == [], name
            dialog.get_by_role("button", name="Cancel", exact=True).click()
            expect(dialog).to_have_count(0)
            expect(button).to_be_focused()
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog", name="Commands")).to_be_visible()
    assert violations(page) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Set budget…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("spinbutton").fill("7")
    dialog.get_by_role("button", name="Set budget").click()
    expect(page.get_by_text("Budget set")).to_be_visible()
    assert violations(page) == []


def test_nothing_that_somebody_decides_on_is_hidden(
    watched: Watched, hostile: Operator, tmp_path: Path
) -> None:
    """A terminal shows nothing of what stands in the title of a window. Here, all of it counts."""
    swarm = hostile.create_swarm("hidden", "What the eye does not see")
    hostile.operate(
        "spawn_subtask",
        swarm_id=swarm,
        bead_id="t-1",
        subtask_title="Read the docs",
        subtask_description="Read",
        files=["docs/"],
        repo=str(Repo(tmp_path / "hidden").path),
        success_criteria=["Command passes: true \x1b]rm -rf\x07 \u202esrc"],
        target="main",
        policy={"scope_requests": "ask", **FEWER_RUNS},
        submit=True,
    )
    hostile.start(swarm, "w-1")
    paths = ["README.md\x1b]0;/secret\x07", "src/\u202egnp.py", "a\nb"]
    reason = "a note\x1b]0;, and the keys\x07"
    hostile.bus(
        "request_scope", swarm, bead_id="t-1", name="w-1", epoch=1, paths=paths, reason=reason
    )
    page = watched.page()
    hostile.log_in(page)
    page.goto("/#/inbox")
    scope = page.get_by_role("article", name="Wants more files: Read the docs")
    for text in ("README.md[U+001B]]0;/secret[U+0007]", "src/[U+202E]gnp.py", "a[U+000A]b"):
        expect(scope.get_by_text(text, exact=True)).to_be_visible()
    expect(scope).to_contain_text("and the keys")
    page.goto(f"/#/s/{swarm}/task/t-1/contract")
    expect(page.locator(".criteria")).to_contain_text("true [U+001B]]rm -rf[U+0007] [U+202E]src")
