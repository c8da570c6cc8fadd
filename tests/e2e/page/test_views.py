"""The views beside board and inbox: the graph, the workers, the events, two runs compared."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Locator, Page, Route, ViewportSize, expect

from tests.e2e.page.browsing import Watched
from tests.e2e.page.page_operator import Operator

pytestmark = pytest.mark.requirement("OWN-04")

# As if the reader went to another tab, and came back: a browser without a screen shows all tabs.
HIDE: Final = """() => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
SHOW: Final = """() => {
  delete document.hidden;
  document.dispatchEvent(new Event("visibilitychange"));
}"""

# In pixels of the screen, of every text that the graph shows.
SHOWN_TEXT_SIZES: Final = """() => {
  const drawing = document.querySelector(".graph-drawing");
  const scale = drawing.getAttribute("width") / drawing.viewBox.baseVal.width;
  return [...drawing.querySelectorAll("text")].map((text) => getComputedStyle(text))
    .filter((style) => style.display !== "none").map((style) => parseFloat(style.fontSize) * scale);
}"""


def node(page: Page, task: str) -> Locator:
    return page.locator(f'.graph-node[data-id="{task}"]')


def test_states_change_in_the_graph_and_nothing_moves(page: Page, operator: Operator) -> None:
    swarm = operator.create_swarm("views-graph", "Chain")
    operator.add_tasks(swarm, {"a": "Alpha"})
    for task, need in (("b", "a"), ("c", "b"), ("d", "a")):
        operator.bus("add_task", swarm, bead_id=task, title=task.upper(), depends_on=[need])
    page.goto(f"/#/s/{swarm}/graph")
    expect(page.locator(".graph-path")).to_contain_text("3 tasks of 4 unfinished, next: a")
    expect(page.locator(".graph-edge.critical")).to_have_count(2)
    node(page, "b").focus()
    before = page.locator(".graph-drawing").bounding_box(), node(page, "b").bounding_box()
    page.evaluate("document.querySelector('.graph-drawing').isTheFirst = true")

    operator.start(swarm, "w-1")
    expect(node(page, "a")).to_have_class(re.compile("column-running"))
    assert (page.locator(".graph-drawing").bounding_box(), node(page, "b").bounding_box()) == before
    assert page.evaluate("document.querySelector('.graph-drawing').isTheFirst"), "drawn anew"
    expect(node(page, "b")).to_be_focused()

    # A new task is drawn.
    operator.bus("add_task", swarm, bead_id="e", title="E", depends_on=["c"])
    expect(node(page, "e")).to_be_visible()
    expect(page.locator(".graph-path")).to_contain_text("4 tasks of 5 unfinished")


def test_graph_without_tasks_says_what_fills_it(page: Page, operator: Operator) -> None:
    swarm = operator.create_swarm("views-empty", "Nothing yet")
    page.goto(f"/#/s/{swarm}/graph")
    expect(page.get_by_role("heading", name="No tasks yet")).to_be_visible()
    expect(page.get_by_role("button", name="Fit")).to_be_hidden()
    operator.add_tasks(swarm, {"a": "Alpha"})
    expect(node(page, "a")).to_be_visible()
    expect(page.get_by_role("button", name="Fit")).to_be_visible()


def test_titles_end_within_their_boxes(page: Page, operator: Operator) -> None:
    swarm = operator.create_swarm("views-titles", "Titles")
    titles = {"wide": "WIDE " * 20, "narrow": "ill " * 20, "short": "Short"}
    operator.add_tasks(swarm, titles)
    page.goto(f"/#/s/{swarm}/graph")
    for task in titles:
        expect(node(page, task)).to_be_visible()
        box, text = (
            node(page, task).locator(part).evaluate("part => part.getBBox().width")
            for part in ("rect", ".graph-detail")
        )
        assert text <= box - 2 * 12, task
    # What there is room for is shown.
    shown = [node(page, task).locator(".graph-detail").inner_html() for task in titles]
    assert len(shown[1]) > len(shown[0])
    assert shown[2].endswith("Short")


@pytest.mark.parametrize("size", [{"width": 1280, "height": 800}, {"width": 380, "height": 760}])
def test_graph_of_two_hundred_tasks_can_be_read(
    page: Page, operator: Operator, size: ViewportSize
) -> None:
    swarm = operator.create_swarm("views-large", "Large")
    ids = [f"invoices-and-taxes-{number}" for number in range(200)]
    needs = [[], *([each] for each in ids)]
    tasks = [
        {"bead_id": task, "title": "Move it", "depends_on": needs[max(0, number - 20)]}
        for number, task in enumerate(ids)
    ]
    operator.bus("add_tasks", swarm, tasks=tasks)
    page.set_viewport_size(size)
    page.goto(f"/#/s/{swarm}/graph")
    expect(page.locator(".graph-node")).to_have_count(200)
    assert min(page.evaluate(SHOWN_TEXT_SIZES)) >= 9
    # Both ends of an id are there, which tell the tasks apart.
    shown = node(page, ids[187]).locator("text:visible")
    expect(shown).to_have_text(re.compile("^invoice.*-187$"))
    for _ in range(4):
        page.keyboard.press("+")
    expect(node(page, ids[187]).locator(".graph-detail")).to_contain_text("Move it")
    assert min(page.evaluate(SHOWN_TEXT_SIZES)) >= 9


def test_unknown_run_leads_to_the_others(page: Page, watched: Watched) -> None:
    watched.expect(r"404 \(Not Found\)")
    page.goto("/#/s/views-unknown/board")
    expect(page.get_by_role("heading", name="Unknown swarm: views-unknown")).to_be_visible()
    page.get_by_role("link", name="To the runs").click()
    expect(page.get_by_role("heading", name="Runs", exact=True)).to_be_visible()


def test_worker_on_a_small_screen_shows_its_step(page: Page, operator: Operator) -> None:
    swarm = operator.create_swarm("views-small", "Small")
    operator.add_tasks(swarm, {"a": "Alpha"})
    operator.start(swarm, "w-1")
    operator.ask(swarm, "w-1", "Which key format do the others use?")
    operator.bus("heartbeat", swarm, name="w-1", current_step="Waits for the key format")
    page.set_viewport_size({"width": 380, "height": 760})
    page.goto(f"/#/s/{swarm}/workers")
    row = page.get_by_role("listitem").filter(has_text="w-1")
    expect(row.get_by_text("Waits for the key format")).to_be_visible()
    expect(row.locator(".quiet", has_text="BLOCKED")).to_be_hidden()


def test_a_parked_task_is_rather_answered_than_resumed(page: Page) -> None:
    """So the page does not offer both as the first thing to do."""
    tones = page.evaluate(
        """async () => {
          const { taskActions } = await import("/static/js/actions.js");
          const actions = (hold) => taskActions("s", { bead_id: "a", status: "queued", hold });
          const tone = (hold) => actions(hold).find(({ id }) => id === "resume").tone;
          return [tone("answer"), tone("pause")];
        }"""
    )
    assert tones == ["", "primary"]


def test_a_task_of_a_paused_run_resumes_the_run(page: Page, operator: Operator) -> None:
    swarm = operator.create_swarm("views-paused", "Paused")
    operator.add_tasks(swarm, {"a": "Alpha"})
    operator.bus("pause_swarm", swarm, reason="lunch")
    page.goto(f"/#/s/{swarm}/task/a")
    page.get_by_role("button", name="Resume run").click()
    expect(page.get_by_role("button", name="Pause task")).to_be_visible()
    assert operator.bus("show_task", swarm, bead_id="a").get("hold") is None


def test_an_ended_process_is_told_in_words(page: Page) -> None:
    told = page.evaluate(
        """async () => {
          const { sentenceOf } = await import("/static/js/events/sentences.js");
          const data = (ended) => ({ process: 1, agent: "codex", ended });
          const of = (ended) => sentenceOf({ kind: "agent_run_ended", data: data(ended) });
          return [of("ended"), of("timeout")];
        }"""
    )
    assert told == ["Process 1 of codex ended", "Process 1 of codex ended: timeout"]


def test_a_diff_scrolls_once_and_is_read_again_after_an_error(page: Page) -> None:
    """Answers come late, in another order, or not at all."""
    told = page.evaluate(
        """async () => {
          const { diffPanel } = await import("/static/js/task/diff_panel.js");
          const asked = [];
          const load = (claim) => new Promise((done, fail) => asked.push({ claim, done, fail }));
          const panel = diffPanel({ swarm: "s", id: "a", load });
          let scrolled = 0;
          Element.prototype.scrollIntoView = () => (scrolled += 1);
          const file = (path) => ({ path, status: "M", added: 1, removed: 0, hunks: [] });
          const diff = (path) => ({ source: "claim", base: "a", commit: "b", files: [file(path)] });
          const update = (claim, file) => panel.update({ claims: [] }, { query: { claim, file } });
          const paths = () => [...panel.element.querySelectorAll("section.diff-file h3 bdi")]
            .map((each) => each.textContent);

          const told = {};
          const [old, next] = [update("1", "old"), update("2", "new")];
          asked[1].done(diff("new"));
          await next;
          asked[0].done(diff("old"));
          await old;
          told.latest = paths();
          await update("2", "new");
          await update("2", "new");
          told.scrolled = scrolled;
          const failing = update("3");
          asked[2].fail(new Error("gone"));
          await failing;
          told.failed = panel.element.textContent.includes("gone");
          const again = update("3");
          asked[3].done(diff("third"));
          await again;
          told.again = paths();
          return told;
        }"""
    )
    assert told == {"latest": ["new"], "scrolled": 1, "failed": True, "again": ["third"]}


def test_workers_show_what_they_do(page: Page, operator: Operator) -> None:
    swarm = operator.create_swarm("views-workers", "Workers")
    operator.add_tasks(swarm, {"a": "Alpha"})
    operator.start(swarm, "claude-1")
    operator.bus("register_worker", swarm, name="claude-2")
    page.goto(f"/#/s/{swarm}/workers")
    row = page.get_by_role("listitem").filter(has_text="claude-1")
    expect(row).to_contain_text("Alpha")
    expect(row).to_contain_text("left")
    expect(page.get_by_text("1 of 2 workers at work")).to_be_visible()
    operator.bus(
        "heartbeat", swarm, name="claude-1", context_usage=0.75, current_step="Run the tests"
    )
    expect(row).to_contain_text("Run the tests")
    expect(row).to_contain_text("75%")


def test_events_are_filtered_and_come_in_live(page: Page, operator: Operator) -> None:
    swarm = operator.create_swarm("views-events", "Events")
    operator.add_tasks(swarm, {"a": "Alpha", "b": "Beta"})
    page.goto(f"/#/s/{swarm}/events")
    events = page.get_by_role("list", name="Events")
    expect(events.get_by_text("task added")).to_have_count(2)
    page.get_by_role("combobox", name="Kind").select_option("Attempts")
    expect(page.get_by_role("heading", name="No event matches")).to_be_visible()
    page.wait_for_url(re.compile("kind=attempts"))
    operator.start(swarm, "w-1")
    expect(events.get_by_text("task started")).to_have_count(1)
    expect(events.get_by_text("task added")).to_have_count(0)


def test_two_runs_are_compared(page: Page, operator: Operator) -> None:
    for swarm, dollars in (("views-first", 4.0), ("views-second", 3.0)):
        operator.create_swarm(swarm, swarm)
        operator.add_tasks(swarm, {"a": "Alpha"})
        operator.start(swarm, "w-1")
        operator.bus("report_usage", swarm, bead_id="a", name="w-1", epoch=1, dollars=dollars)
        operator.bus("worker_done", swarm, bead_id="a")
    page.goto("/#/runs")
    # In whichever order they are chosen, a change is from the older run to the newer one.
    for swarm in ("views-first", "views-second"):
        page.get_by_role("checkbox", name=re.compile(swarm)).check()
    page.get_by_role("button", name="Compare").click()
    cost = page.get_by_role("row").filter(has_text="Cost").first
    expect(cost).to_contain_text("$4.00")
    expect(cost).to_contain_text("$3.00")
    expect(cost).to_contain_text("−$1.00 (−25%), better")
    tasks = page.get_by_role("region", name="Tasks")
    expect(tasks.get_by_role("link", name="Done")).to_have_count(2)


def test_help_of_every_view_lists_its_keys(page: Page, operator: Operator) -> None:
    swarm = operator.create_swarm("views-keys", "Keys")
    operator.add_tasks(swarm, {"a": "Alpha"})
    own = {
        f"s/{swarm}/board": None,
        f"s/{swarm}/graph": "Fit",
        f"s/{swarm}/workers": "Reset the selected worker",
        f"s/{swarm}/events": None,
        f"s/{swarm}/replay": "Play and pause",
        "inbox": None,
        "runs": "Choose a run to compare",
        "repos": None,
    }
    keys = page.get_by_role("dialog", name="Keys")
    for route, meaning in own.items():
        page.goto(f"/#/{route}")
        view = route.rpartition("/")[2]
        expect(page.locator("#main")).to_have_attribute("data-view", view)
        page.keyboard.press("?")
        expect(keys).to_contain_text("This help")
        if meaning is not None:
            expect(keys).to_contain_text(meaning)
        page.keyboard.press("Escape")
        expect(keys).to_have_count(0)


def test_listed_keys_lead_to_every_view(page: Page, operator: Operator) -> None:
    swarm = operator.create_swarm("views-places", "Places")
    operator.add_tasks(swarm, {"a": "Alpha"})
    page.goto(f"/#/s/{swarm}/board")
    expect(page.get_by_role("link", name="Alpha")).to_be_visible()
    page.keyboard.press("?")
    places = page.get_by_role("dialog", name="Keys").locator("section", has_text="Go to")
    keys = [each.split() for each in places.locator("dt").all_inner_texts()]
    names = places.locator("dd").all_inner_texts()
    assert len(names) == page.locator("#nav li").count()
    page.keyboard.press("Escape")
    for sequence, name in zip(keys, names, strict=True):
        for key in sequence:
            page.keyboard.press(key)
        expect(page.locator("#main")).to_have_attribute("data-view", name.lower())


def test_keys_of_views_work_wherever_the_focus_is(page: Page, operator: Operator) -> None:
    swarm = operator.create_swarm("views-focus", "Focus")
    operator.add_tasks(swarm, {"a": "Alpha", "b": "Beta"})
    page.goto(f"/#/s/{swarm}/replay")
    slider = page.get_by_role("slider", name="Event")
    expect(page.locator(".replay-task")).to_have_count(2)
    last = int(slider.input_value())
    page.keyboard.press("ArrowLeft")
    expect(slider).to_have_value(str(last - 1))
    page.keyboard.press("Shift+ArrowLeft")
    expect(slider).to_have_value("1")
    page.keyboard.press("Space")
    expect(page.get_by_role("button", name="Pause")).to_be_visible()

    page.goto(f"/#/s/{swarm}/graph")
    drawing = page.locator(".graph-drawing")
    expect(drawing).to_be_visible()
    fitted = int(drawing.get_attribute("width") or 0)
    page.keyboard.press("+")
    expect(drawing).not_to_have_attribute("width", str(fitted))
    page.keyboard.press("0")
    expect(drawing).to_have_attribute("width", str(fitted))

    page.goto(f"/#/s/{swarm}/events")
    events = page.get_by_role("list", name="Events")
    expect(events.get_by_text("task added")).to_have_count(2)
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox", name="Task")).to_be_focused()


def test_a_tab_that_nobody_sees_loads_only_what_needs_a_person(
    page: Page, operator: Operator
) -> None:
    swarm = operator.create_swarm("views-hidden", "Hidden")
    operator.add_tasks(swarm, {"a": "Alpha"})
    page.goto(f"/#/s/{swarm}/events")
    events = page.get_by_role("list", name="Events")
    expect(events.get_by_text("task added")).to_have_count(1)
    page.evaluate(HIDE)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(urlsplit(request.url).path))
    operator.start(swarm, "w-1")
    operator.ask(swarm, "w-1", "Which one?")
    expect(page).to_have_title(re.compile(r"^\(1\) "))
    # A second round, after everything that the first one may have led to.
    operator.answer(swarm, "That one.")
    expect(page).not_to_have_title(re.compile(r"^\(1\) "))
    assert {path for path in asked if path.startswith("/bus/")} == {"/bus/list_inbox"}
    page.evaluate(SHOW)
    expect(events.get_by_text("question answered")).to_have_count(1)


def test_comparison_says_which_run_was_not_read_as_a_whole(page: Page, operator: Operator) -> None:
    for swarm in ("views-short", "views-long"):
        operator.create_swarm(swarm, swarm)
        operator.add_tasks(swarm, {"a": "Alpha"})

    def without_end(route: Route) -> None:
        """A run that has more events on every page."""
        response = route.fetch()
        if "views-long" not in (route.request.post_data or ""):
            return route.fulfill(response=response)
        return route.fulfill(response=response, json={**response.json(), "next_after": 1})

    page.route("**/bus/list_events", without_end)
    page.goto("/#/runs/compare?a=views-short&b=views-long")
    expect(page.get_by_text("is too long to be read as a whole")).to_have_count(1)
    expect(page.locator(".notice")).to_contain_text("views-long")


def test_repos_are_read_again_only_after_what_changes_them(page: Page, operator: Operator) -> None:
    swarm = operator.create_swarm("views-repos", "Repos")
    operator.add_tasks(swarm, {"a": "Alpha"})
    page.goto(f"/#/s/{swarm}/board")
    expect(page.get_by_role("link", name="Alpha")).to_be_visible()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(urlsplit(request.url).path))
    page.goto("/#/repos")
    expect(page.get_by_role("heading", name="The policy names no repos")).to_be_visible()
    expect(page.get_by_text("By phase")).to_be_hidden()
    operator.start(swarm, "w-1")
    operator.ask(swarm, "w-1", "Which one?")
    expect(page).to_have_title(re.compile(r"^\(1\) "))
    operator.answer(swarm, "That one.")
    expect(page).not_to_have_title(re.compile(r"^\(1\) "))
    with page.expect_request("**/bus/list_repos"):
        operator.bus("worker_done", swarm, name="w-1", bead_id="a", epoch=1)
    assert asked.count("/bus/list_repos") == 2


def test_replay_counts_the_tasks_that_it_does_not_show(page: Page, operator: Operator) -> None:
    swarm = operator.create_swarm("views-replay", "Many")
    for thousand in range(3):
        tasks = [{"bead_id": f"t-{thousand}-{n}", "title": f"Task {n}"} for n in range(700)]
        operator.bus("add_tasks", swarm, tasks=tasks)
    operator.bus("cancel_task", swarm, bead_id="t-2-99")
    page.goto(f"/#/s/{swarm}/replay")
    expect(column(page, "Waiting")).to_contain_text("and 2,049 more")
    # Its task is behind those that the server sends.
    expect(column(page, "Done")).to_contain_text("and 1 more")


def column(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True)
