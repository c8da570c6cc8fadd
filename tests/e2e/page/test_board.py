"""The board: live, stable, fast with many tasks, and safe with any text."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.e2e.page.page_operator import Operator

pytestmark = pytest.mark.requirement("OWN-04")


def column(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True)


def fact(page: Page, name: str) -> Locator:
    return page.locator(f'.fact[data-fact="{name}"] dd')


def test_task_moves_over_the_board_while_somebody_looks(page: Page, operator: Operator) -> None:
    swarm = operator.create_swarm("board-live", "OAuth login")
    page.goto(f"/#/s/{swarm}/board")
    expect(page.get_by_role("heading", name="No tasks yet")).to_be_visible()
    expect(page.get_by_text("shiftboss run plan.yaml")).to_be_visible()

    operator.add_tasks(swarm, {"a": "Add refresh tokens", "b": "Document the login"})
    waiting = column(page, "Waiting")
    expect(waiting.get_by_role("link", name="Add refresh tokens")).to_be_visible()

    operator.start(swarm, "claude-1")
    operator.bus("heartbeat", swarm, name="claude-1", bead_id="a", context_usage=0.62)
    operator.bus(
        "report_usage", swarm, bead_id="a", name="claude-1", epoch=1, input_tokens=900, dollars=1.5
    )
    running = column(page, "Running")
    card = running.get_by_role("listitem").filter(has_text="Add refresh tokens")
    expect(card).to_contain_text("claude-1")
    expect(card).to_contain_text("$1.50")
    expect(fact(page, "work")).to_have_text("1")

    operator.ask(swarm, "claude-1", "How long do they live?")
    expect(column(page, "Needs you")).to_contain_text("How long do they live?")
    expect(page.get_by_role("link", name="1 needs you", exact=True)).to_be_visible()
    expect(page).to_have_title(re.compile(r"^\(1\) .*OAuth login"))

    operator.answer(swarm, "An hour.")
    operator.bus("worker_done", swarm, name="claude-1", bead_id="a", epoch=1)
    expect(column(page, "Done")).to_contain_text("Add refresh tokens")
    expect(fact(page, "progress")).to_contain_text("1 / 2")
    expect(fact(page, "money")).to_contain_text("$1.50")


HOSTILE = {
    "html": ("<script>window.hacked = 1</script><img src=x onerror=alert(1)>", None),
    "ansi": (
        "\x1b[31mRed\x1b[0m \x1b]8;;http://x\x07link\x1b]8;;\x07\x07",
        "Red 8;;http://xlink8;;",
    ),
    "bidi": ("abc \u202egnp.exe\u202c def", "abc gnp.exe def"),
    "hebrew": ("שלום עולם", None),
    "long": ("n" * 500, None),
}


def test_titles_are_text_and_nothing_else(page: Page, operator: Operator) -> None:
    swarm = operator.create_swarm("board-hostile", "<b>bold</b>")
    operator.add_tasks(swarm, {bead: title for bead, (title, _) in HOSTILE.items()})
    page.goto(f"/#/s/{swarm}/board")
    for bead_id, (title, shown) in HOSTILE.items():
        link = page.locator(f'a.card-link[href$="/task/{bead_id}"]')
        expect(link).to_have_text(shown or title, use_inner_text=False)
        width = link.evaluate("(element) => element.getBoundingClientRect().width")
        assert width < 400, bead_id
    assert page.evaluate("window.hacked") is None
    assert page.locator(".card img, .card script").count() == 0
    expect(page.locator(".switcher-name")).to_have_text("<b>bold</b>")


def test_long_names_of_workers_keep_their_number(page: Page, operator: Operator) -> None:
    swarm = operator.create_swarm("board-workers", "Workers")
    operator.add_tasks(swarm, {"a": "Alpha"})
    worker = "the-great-cleaning-of-the-cellar-and-of-the-attic-17"
    operator.start(swarm, worker)
    page.goto(f"/#/s/{swarm}/board")
    shown = column(page, "Running").locator(".card-worker")
    expect(shown).to_have_text(worker)
    expect(shown).to_have_attribute("title", worker)
    number, card = shown.get_by_text("-17", exact=True), column(page, "Running").locator(".card")
    inner, outer = number.bounding_box(), card.bounding_box()
    assert inner is not None
    assert outer is not None
    assert inner["width"] > 0
    assert inner["x"] + inner["width"] < outer["x"] + outer["width"] - 12


def test_only_what_is_in_sight_is_in_the_document(page: Page, operator: Operator) -> None:
    swarm = operator.create_swarm("board-many", "Many")
    for number in range(150):
        operator.bus("add_task", swarm, bead_id=f"t-{number}", title=f"Task {number}")
    page.goto(f"/#/s/{swarm}/board")
    waiting = column(page, "Waiting")
    heading = waiting.get_by_role("heading", level=2)
    expect(heading).to_contain_text("150")
    assert waiting.locator(".card").count() < 60
    expect(waiting.get_by_role("listitem").first).to_have_attribute("aria-setsize", "150")

    page.keyboard.press("/")
    page.keyboard.type("task 149")
    expect(heading).to_contain_text("1 of 150")
    expect(waiting.get_by_role("link", name="Task 149")).to_be_visible()
    page.keyboard.press("Escape")
    expect(heading).to_have_text("Waiting150")

    # In the middle of the list, the row in sight stays in its place when others come before it.
    waiting.locator(".vlist").evaluate("(list) => { list.scrollTop = list.scrollHeight / 2 }")
    middle = waiting.get_by_role("link", name="Task 75")
    expect(middle).to_be_visible()
    before = middle.bounding_box()
    operator.bus("add_task", swarm, bead_id="first", title="Urgent", priority=9)
    expect(heading).to_contain_text("151")
    assert middle.bounding_box() == before


def test_everything_can_be_reached_with_the_keyboard(page: Page, operator: Operator) -> None:
    swarm = operator.create_swarm("board-keys", "Keys")
    operator.add_tasks(swarm, {"a": "Alpha", "b": "Beta"})
    page.goto(f"/#/s/{swarm}/board")
    expect(page.get_by_role("link", name="Beta")).to_be_visible()

    page.keyboard.press("j")
    expect(page.get_by_role("link", name="Alpha")).to_be_focused()
    page.keyboard.press("j")
    expect(page.get_by_role("link", name="Beta")).to_be_focused()
    page.keyboard.press("k")

    page.keyboard.press("Control+k")
    palette = page.get_by_role("dialog", name="Commands")
    palette.get_by_role("combobox").fill("cancel")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Cancel this task")
    dialog.get_by_label("Reason").fill("Not needed any more")
    dialog.get_by_role("button", name="Cancel task").click()
    expect(column(page, "Done")).to_contain_text("Alpha")
    assert operator.bus("show_task", swarm, bead_id="a")["status"] == "cancelled"

    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    for keys, address in (("gi", "#/inbox"), ("gr", "#/runs"), ("gw", f"#/s/{swarm}/workers")):
        for key in keys:
            page.keyboard.press(key)
        page.wait_for_url(re.compile(re.escape(address) + "$"))
    page.keyboard.press("g")
    page.keyboard.press("b")
    expect(page.get_by_role("link", name="Beta")).to_be_visible()
    page.keyboard.press("j")
    expect(page.get_by_role("link", name="Beta")).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"#/s/board-keys/task/b$"))


def test_small_screen_shows_a_list(page: Page, operator: Operator) -> None:
    swarm = operator.create_swarm("board-small", "On the phone")
    operator.add_tasks(swarm, {"a": "Alpha", "b": "Beta"})
    operator.start(swarm, "w-1")
    page.set_viewport_size({"width": 380, "height": 800})
    page.goto(f"/#/s/{swarm}/board")
    cards = page.get_by_role("list", name="Tasks")
    expect(cards).to_contain_text("Alpha")
    expect(cards.get_by_role("heading", level=2)).to_have_text(["Running1", "Waiting1"])
    assert page.evaluate("document.documentElement.scrollWidth") <= 380


def test_ages_are_right_though_the_answer_was_made_for_an_earlier_page(
    page: Page, operator: Operator
) -> None:
    swarm = operator.create_swarm("board-ages", "Ages")
    operator.add_tasks(swarm, {"a": "Alpha"})
    operator.start(swarm, "w-1")

    def made_earlier(route: Route) -> None:
        """Where nothing happens, another page may have asked ten minutes ago."""
        response = route.fetch()
        answer = response.json()
        earlier = {**answer, "server_time": answer["server_time"] - 600_000}
        route.fulfill(response=response, json=earlier)

    page.route("**/bus/list_cards", made_earlier)
    page.goto(f"/#/s/{swarm}/board")
    age = column(page, "Running").locator(".card time")
    expect(age).to_have_text(re.compile("^[1-9][0-9]?s$"))
