"""What is shown is right again after failed requests, early changes, and dead connections."""

from __future__ import annotations

import json
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.e2e.page.browsing import Watched
from tests.e2e.page.page_operator import Operator
from tests.waiting import wait_until

pytestmark = pytest.mark.requirement("OWN-04")

# The page takes so much silence for a lost connection; it looks every five seconds.
SILENCE_MS: Final = 46_000
BUSY: Final = {"title": "Service Unavailable", "detail": "the server is busy", "code": "busy"}


def column(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True)


def body_of(route: Route) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(route.request.post_data or "{}")
    return body


class FailsOnce:
    """The next request to this address is refused; those after it are answered."""

    def __init__(self, page: Page, watched: Watched, address: str) -> None:
        self.has_failed = False
        watched.expect("503")
        page.route(address, self._answer)

    def _answer(self, route: Route) -> None:
        if self.has_failed:
            return route.continue_()
        self.has_failed = True
        return route.fulfill(status=503, json=BUSY)


def test_tasks_that_could_not_be_loaded_are_asked_for_again(
    page: Page, watched: Watched, operator: Operator
) -> None:
    swarm = operator.create_swarm("refresh-load", "Load")
    operator.add_tasks(swarm, {"a": "Alpha"})
    FailsOnce(page, watched, "**/bus/list_cards")
    page.goto(f"/#/s/{swarm}/board")
    expect(column(page, "Waiting").get_by_role("link", name="Alpha")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_change_is_shown_though_the_request_for_it_failed(
    page: Page, watched: Watched, operator: Operator
) -> None:
    swarm = operator.create_swarm("refresh-change", "Change")
    operator.add_tasks(swarm, {"a": "Alpha", "b": "Beta"})
    page.goto(f"/#/s/{swarm}/board")
    expect(column(page, "Waiting").get_by_role("link", name="Alpha")).to_be_visible()
    FailsOnce(page, watched, "**/bus/list_cards")
    operator.bus("cancel_task", swarm, bead_id="a")
    expect(page.get_by_role("alert")).to_contain_text("the server is busy")
    expect(column(page, "Done").get_by_role("link", name="Alpha")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_what_changes_while_the_board_is_loaded_is_shown(page: Page, operator: Operator) -> None:
    swarm = operator.create_swarm("refresh-early", "Early")
    tasks = [{"bead_id": f"t-{n:03}", "title": f"Task {n}"} for n in range(250)]
    operator.bus("add_tasks", swarm, tasks=tasks)
    held: list[Route] = []

    def hold_the_second_page(route: Route) -> None:
        if held or "after" not in body_of(route):
            route.continue_()
        else:
            held.append(route)

    page.route("**/bus/list_cards", hold_the_second_page)
    page.goto(f"/#/s/{swarm}/board")
    waiting = column(page, "Waiting").get_by_role("heading", level=2)
    expect(waiting).to_contain_text("200+")
    with page.expect_request("**/bus/list_inbox"):
        operator.bus("cancel_task", swarm, bead_id="t-000")
    # By now the page has heard of it. The task was on the first page.
    held[0].continue_()
    expect(waiting).to_have_text("Waiting249")
    expect(column(page, "Done").get_by_role("link", name="Task 0")).to_be_visible()


def test_a_silent_connection_is_replaced(page: Page, operator: Operator) -> None:
    swarm = operator.create_swarm("refresh-silent", "Silent")
    operator.add_tasks(swarm, {"a": "Alpha"})
    page.clock.install()
    page.goto(f"/#/s/{swarm}/board")
    expect(column(page, "Waiting").get_by_role("link", name="Alpha")).to_be_visible()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(urlsplit(request.url).path))

    def is_replaced() -> bool:
        """A frame that arrives while the clock is moved on counts as heard: then once more."""
        if "/changes" not in asked:
            page.clock.fast_forward(SILENCE_MS)
        page.wait_for_timeout(100)
        return {"/changes", "/bus/list_cards"} <= {*asked}

    wait_until(is_replaced, "the page connects again and loads its cards", 30)
    operator.bus("cancel_task", swarm, bead_id="a")
    expect(column(page, "Done").get_by_role("link", name="Alpha")).to_be_visible()


def test_runs_are_read_again_after_a_lost_connection(page: Page, operator: Operator) -> None:
    """Also before any run was opened."""
    operator.create_swarm("refresh-runs", "The first run")

    def ends_at_once(route: Route) -> None:
        """A connection that breaks before it tells of any change, again and again."""
        route.fulfill(content_type="text/event-stream", body="event: hello\ndata: {}\n\n")

    page.route("**/changes", ends_at_once)
    page.goto("/#/runs")
    page.reload()
    expect(page.get_by_role("link", name="The first run")).to_be_visible()
    operator.create_swarm("refresh-later", "The second run")
    expect(page.get_by_role("link", name="The second run")).to_be_visible()


def test_all_that_happened_to_a_task_is_read_page_by_page(page: Page, operator: Operator) -> None:
    swarm = operator.create_swarm("refresh-history", "History")
    operator.add_tasks(swarm, {"a": "Alpha"})
    operator.start(swarm, "w-1")
    operator.ask(swarm, "w-1", "Which one?")
    operator.answer(swarm, "That one.")
    events = operator.bus("list_events", swarm, bead_id="a")["events"]
    limits: list[int] = []

    def with_short_pages(route: Route) -> None:
        route.continue_(post_data=json.dumps({**body_of(route), "limit": limits[-1]}))

    page.route("**/bus/list_events", with_short_pages)
    attempts = page.locator("section", has=page.get_by_role("heading", name="Attempts"))
    limits.append(len(events) // 3)
    page.goto(f"/#/s/{swarm}/task/a")
    expect(attempts).to_contain_text("Added")
    expect(attempts).to_contain_text("Which one?")
    expect(attempts).not_to_contain_text("What happened earlier")

    # A run that is longer than what is read of it.
    limits.append(1)
    page.reload()
    expect(attempts).to_contain_text("What happened earlier is not listed here")
    expect(attempts).not_to_contain_text("Added")
    attempts.get_by_role("link", name="all events of this task").click()
    expect(page.get_by_role("list", name="Events")).to_be_visible()


def test_events_that_could_not_be_loaded_come_with_the_next_change(
    page: Page, watched: Watched, operator: Operator
) -> None:
    swarm = operator.create_swarm("refresh-events", "Events")
    operator.add_tasks(swarm, {"a": "Alpha"})
    FailsOnce(page, watched, "**/bus/list_events")
    page.goto(f"/#/s/{swarm}/events")
    operator.bus("cancel_task", swarm, bead_id="a")
    events = page.get_by_role("list", name="Events")
    expect(events.get_by_text("task cancelled")).to_have_count(1)
    expect(events.get_by_text("task added")).to_have_count(1)
    expect(page.get_by_text("the server is busy")).to_have_count(0)


def test_a_log_that_could_not_be_read_comes_with_the_next_change(
    page: Page, watched: Watched, operator: Operator
) -> None:
    swarm = operator.create_swarm("refresh-log", "Log")
    operator.add_tasks(swarm, {"a": "Alpha"})
    FailsOnce(page, watched, "**/bus/read_log")
    page.goto(f"/#/s/{swarm}/task/a/log")
    expect(page.get_by_role("heading", name="The output cannot be read")).to_be_visible()
    operator.start(swarm, "w-1")
    expect(page.get_by_role("heading", name="No output here")).to_be_visible()
    expect(page.get_by_role("heading", name="The output cannot be read")).to_have_count(0)


def test_a_view_without_its_code_offers_a_reload(
    page: Page, watched: Watched, operator: Operator
) -> None:
    swarm = operator.create_swarm("refresh-view", "View")
    operator.add_tasks(swarm, {"a": "Alpha"})
    page.goto(f"/#/s/{swarm}/board")
    expect(column(page, "Waiting").get_by_role("link", name="Alpha")).to_be_visible()
    FailsOnce(page, watched, "**/static/js/views/graph.js")
    page.get_by_role("navigation", name="Views").get_by_role("link", name="Graph").click()
    expect(page.get_by_role("alert")).to_contain_text("This view could not be loaded")
    page.get_by_role("button", name="Reload the page").click()
    expect(page.locator('.graph-node[data-id="a"]')).to_be_visible()


def test_screen_readers_are_told_what_needs_a_person(page: Page, operator: Operator) -> None:
    swarm = operator.create_swarm("refresh-aloud", "Aloud")
    operator.add_tasks(swarm, {"a": "Alpha"})
    page.goto(f"/#/s/{swarm}/board")
    expect(page.locator(".header-facts")).to_be_visible()
    expect(page.locator("#header [aria-live]")).to_have_count(0)
    operator.start(swarm, "w-1")
    operator.ask(swarm, "w-1", "Which one?")
    spoken = page.locator("#header").get_by_role("status")
    expect(spoken).to_have_text("1 needs you")


def test_all_tasks_are_read_again_if_that_is_asked_for_during_a_load(page: Page) -> None:
    """What was read before it may be older than what it is about."""
    titles = page.evaluate(
        """async () => {
          const { Cards } = await import("/static/js/cards.js");
          const asked = [];
          const post = () => new Promise((answer) => asked.push(answer));
          const cards = new Cards({ post }, "s", () => {});
          const next = async (answer) => {
            asked.shift()(answer);
            await new Promise((resolve) => setTimeout(resolve));
          };
          cards.load();
          await next({ cards: [{ bead_id: "a", title: "Old" }], next_after: "a" });
          cards.load();
          await next({ cards: [{ bead_id: "b", title: "Beta" }] });
          await next({ cards: [{ bead_id: "a", title: "New" }] });
          return [...cards.byId.values()].map((card) => card.title);
        }"""
    )
    assert titles == ["New"]


def test_work_for_the_next_frame_is_done_in_a_tab_without_frames(page: Page) -> None:
    """A tab that is hidden while it waits for a frame gets none."""
    is_done = page.evaluate(
        """async () => {
          const { perFrame } = await import("/static/js/schedule.js");
          const frame = window.requestAnimationFrame;
          window.requestAnimationFrame = () => 1;
          const done = new Promise((resolve) => perFrame(() => resolve(true))());
          window.requestAnimationFrame = frame;
          return Promise.race([done, new Promise((resolve) => setTimeout(resolve, 15000, false))]);
        }"""
    )
    assert is_done
