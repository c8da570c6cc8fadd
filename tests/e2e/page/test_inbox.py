"""The inbox: what needs a person is answered, granted and decided right there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.client import Client
from tests.e2e.page.browsing import Watched
from tests.e2e.page.page_operator import Operator
from tests.plan_runs import FEWER_RUNS
from tests.repos import Repo

pytestmark = pytest.mark.requirement("OWN-04")

CRITERION = "Command passes: grep -q token src/auth/login.py"
HONEST = {"src/auth/login.py": "def login():\n    return 'token'\n"}


def item(page: Page, name: str) -> Locator:
    return page.get_by_role("article", name=name)


def test_question_is_answered_with_a_thumb(page: Page, operator: Operator) -> None:
    swarm = operator.create_swarm("inbox-question", "Questions")
    operator.add_tasks(swarm, {"a": "Rotate the tokens", "b": "Other"})
    operator.start(swarm, "claude-1")
    operator.ask(swarm, "claude-1", "On every use?\n<b>Or once a day?</b>")
    page.set_viewport_size({"width": 380, "height": 800})
    page.goto("/#/inbox")
    question = item(page, "Question: Rotate the tokens")
    expect(question).to_contain_text("<b>Or once a day?</b>")
    field = question.get_by_role("textbox")
    field.fill("On every use.")

    # What was typed stays while other things come in.
    operator.start(swarm, "claude-2")
    operator.ask(swarm, "claude-2", "And me?")
    expect(page.get_by_text("And me?")).to_be_visible()
    expect(field).to_have_value("On every use.")

    button = question.get_by_role("button", name="Send answer")
    box = button.bounding_box()
    assert box is not None
    assert box["height"] >= 44
    button.click()
    expect(question).to_have_count(0)
    answered = operator.bus("list_questions", swarm, only_open=False)["questions"]
    assert [each["answer"] for each in answered if each["bead_id"] == "a"] == ["On every use."]


def test_refusal_of_the_server_is_shown_with_its_hint(
    watched: Watched, page: Page, operator: Operator
) -> None:
    swarm = operator.create_swarm("inbox-refusal", "Refusals")
    operator.add_tasks(swarm, {"a": "Paint"})
    operator.start(swarm, "w-1")
    operator.ask(swarm, "w-1", "Which colour?")
    page.goto("/#/inbox")
    question = item(page, "Question: Paint")
    question.get_by_role("textbox").fill("Red")
    # Somebody else was faster; this page has not heard of it.
    page.route("**/bus/list_inbox", lambda route: route.abort())
    watched.expect("ERR_FAILED|409")
    operator.answer(swarm, "Blue")
    question.get_by_role("button", name="Send answer").click()
    expect(question.get_by_role("alert")).to_contain_text("already")


def test_failed_budget_and_pause_are_resolved(page: Page, operator: Operator) -> None:
    swarm = operator.create_swarm("inbox-holds", "Holds")
    operator.add_tasks(swarm, {"a": "Fail", "b": "Spend", "c": "Wait"})
    operator.start(swarm, "w-1")
    operator.bus("task_failed", swarm, bead_id="a", name="w-1", epoch=1, reason="no luck")
    operator.start(swarm, "w-1")
    operator.bus("set_budget", swarm, bead_id="b", dollars=1)
    operator.bus("report_usage", swarm, bead_id="b", name="w-1", epoch=1, dollars=2)
    operator.bus("pause_swarm", swarm, bead_id="c", reason="lunch")

    page.goto("/#/inbox")
    item(page, "Failed: Fail").get_by_role("button", name="Try again").click()
    expect(item(page, "Failed: Fail")).to_have_count(0)
    assert operator.bus("show_task", swarm, bead_id="a")["status"] in ("queued", "active")

    item(page, "Budget spent: Spend").get_by_role("button", name="Raise budget").click()
    dialog = page.get_by_role("dialog", name="Budget of the task")
    expect(dialog).to_contain_text("$2.00 of $1.00")
    dialog.get_by_label("New limit in dollars").fill("5")
    dialog.get_by_role("button", name="Set budget").click()
    expect(item(page, "Budget spent: Spend")).to_have_count(0)

    item(page, "Paused: Wait").get_by_role("button", name="Resume task").click()
    expect(item(page, "Paused: Wait")).to_have_count(0)


def test_raised_budget_keeps_its_other_limit(
    watched: Watched, page: Page, operator: Operator
) -> None:
    watched.expect("status of 422")
    swarm = operator.create_swarm("inbox-budgets", "Budgets")
    operator.add_tasks(swarm, {"a": "Spend"})
    operator.start(swarm, "w-1")
    operator.bus("set_budget", swarm, bead_id="a", dollars=1, tokens=9000)
    operator.bus("set_budget", swarm, dollars=50, tokens=70_000)
    operator.bus("report_usage", swarm, bead_id="a", name="w-1", epoch=1, dollars=2)

    def limits() -> list[dict[str, Any]]:
        usage = operator.bus("show_usage", swarm)
        return [usage["tasks"][0]["budget"], usage["budget"]]

    page.goto("/#/inbox")
    spent = item(page, "Budget spent: Spend")
    spent.get_by_role("button", name="Raise budget").click()
    dialog = page.get_by_role("dialog", name="Budget of the task")
    expect(dialog).to_contain_text("The limit of 9,000 tokens stays.")
    # What was typed is still there after a refusal, which the dialog shows.
    field = dialog.get_by_label("New limit in dollars")
    field.fill("0")
    dialog.get_by_role("button", name="Set budget").click()
    expect(dialog.get_by_role("alert")).to_contain_text("That did not work")
    expect(field).to_have_value("0")
    field.fill("5")
    dialog.get_by_role("button", name="Set budget").click()
    expect(spent).to_have_count(0)
    assert limits() == [{"tokens": 9000, "dollars": 5.0}, {"tokens": 70_000, "dollars": 50.0}]

    # The same on the page of the task, and for the whole run.
    page.goto(f"/#/s/{swarm}/task/a")
    page.get_by_role("button", name="Set budget…").click()
    expect(dialog).to_contain_text("The limit is $5.00. The limit of 9,000 tokens stays.")
    field.fill("6")
    dialog.get_by_role("button", name="Set budget").click()
    expect(page.get_by_text("$2.00 of $6.00")).to_be_visible()
    # The palette offers what is known of the run.
    expect(page.locator('.fact[data-fact="money"]')).to_contain_text("of $50.00")
    page.keyboard.press("Control+k")
    palette = page.get_by_role("dialog", name="Commands")
    palette.get_by_role("combobox").fill("this run set budget")
    page.keyboard.press("Enter")
    of_run = page.get_by_role("dialog", name="Budget of the run")
    of_run.get_by_label("New limit in dollars").fill("60")
    with page.expect_response("**/operator/set_budget"):
        of_run.get_by_role("button", name="Set budget").click()
    assert limits() == [{"tokens": 9000, "dollars": 6.0}, {"tokens": 70_000, "dollars": 60.0}]


def test_card_leads_to_the_item_of_its_own_run(page: Page, operator: Operator) -> None:
    for swarm in ("inbox-one", "inbox-two"):
        operator.create_swarm(swarm, swarm)
        operator.add_tasks(swarm, {"a": "Same"})
        operator.start(swarm, "w-1")
        operator.ask(swarm, "w-1", f"Question of {swarm}?")
    for swarm in ("inbox-one", "inbox-two"):
        page.goto(f"/#/s/{swarm}/board")
        page.get_by_role("link", name="Answer", exact=True).click()
        # The item, and nothing in it that a key could press.
        chosen = page.locator("article.item:focus")
        expect(chosen).to_contain_text(f"Question of {swarm}?")
        expect(chosen.get_by_role("link", name=swarm, exact=True)).to_be_visible()


def test_items_stay_in_place_under_the_pointer(page: Page, operator: Operator) -> None:
    swarm = operator.create_swarm("inbox-order", "Order")
    operator.add_tasks(swarm, {"a": "Broken", "b": "Asked"})
    operator.start(swarm, "w-1")
    operator.bus("task_failed", swarm, bead_id="a", name="w-1", epoch=1, reason="no luck")
    page.goto("/#/inbox")
    failed, items = item(page, "Failed: Broken"), page.locator("article.item")
    failed.hover()
    before = failed.bounding_box()
    operator.start(swarm, "w-1")
    operator.ask(swarm, "w-1", "Which one?")
    expect(items.nth(1)).to_contain_text("Which one?")
    expect(items.nth(1).get_by_text("New", exact=True)).to_be_visible()
    assert failed.bounding_box() == before

    # Questions come first, as soon as nobody points at the list.
    page.mouse.move(2, 2)
    expect(items.nth(0)).to_contain_text("Which one?")
    expect(items.nth(0).get_by_text("New", exact=True)).to_be_hidden()
    expect(items.nth(0)).to_have_attribute("aria-posinset", "1")


def test_running_attempt_ends_only_after_a_question(page: Page, operator: Operator) -> None:
    swarm = operator.create_swarm("inbox-retry", "Again")
    operator.add_tasks(swarm, {"a": "Alpha"})
    operator.start(swarm, "w-1")
    page.goto(f"/#/s/{swarm}/task/a")
    button = page.get_by_role("button", name="Try again…")
    button.click()
    dialog = page.get_by_role("dialog", name="Try this task again")
    dialog.get_by_role("button", name="Cancel").click()
    expect(button).to_be_focused()
    assert operator.bus("show_task", swarm, bead_id="a")["status"] == "active"
    button.click()
    dialog.get_by_role("button", name="Try again").click()
    expect(page.get_by_text("Queued again")).to_be_visible()

    # One request for a double click.
    operator.start(swarm, "w-2")
    epoch = operator.bus("show_task", swarm, bead_id="a")["epoch"]
    operator.bus("task_failed", swarm, bead_id="a", name="w-2", epoch=epoch, reason="no luck")
    sent: list[str] = []
    page.on("request", lambda request: sent.append(urlsplit(request.url).path))
    page.get_by_role("button", name="Try again", exact=True).dblclick()
    expect(page.get_by_role("button", name="Pause task…")).to_be_visible()
    assert sent.count("/bus/retry_task") == 1


def test_work_that_was_refused_three_times_leads_to_its_verdict(
    page: Page, operator: Operator, client: Client, tmp_path: Path
) -> None:
    swarm = operator.create_swarm("inbox-refused", "Refused")
    repo = Repo(tmp_path / "repo")
    operator.operate(
        "spawn_subtask",
        swarm_id=swarm,
        bead_id="t-1",
        subtask_title="Give a token",
        files=["src/auth/"],
        repo=str(repo.path),
        success_criteria=[CRITERION],
        policy=FEWER_RUNS,
        submit=True,
    )
    operator.start(swarm, "w-1")
    for number in range(3):
        commit = repo.commit(f"work {number}", {"src/auth/login.py": f"# {number}\n"})
        claim = {"swarm_id": swarm, "bead_id": "t-1", "name": "w-1", "commit": commit}
        refused = client.post("/bus/swarm_complete", {**claim, "summary": "done"})
        assert refused.status_code == 409
    page.goto("/#/inbox")
    escalation = item(page, "Escalated: Give a token")
    expect(escalation).to_contain_text("criterion")
    escalation.get_by_role("link", name="Show verdict").click()
    expect(page.get_by_role("heading", name="Refused")).to_be_visible()
    expect(page.locator("details.check.failed")).to_contain_text("Criterion of the contract")

    # On a small screen, what leads there from the timeline stands beside the time.
    page.set_viewport_size({"width": 380, "height": 760})
    page.goto(f"/#/s/{swarm}/task/t-1")
    entry = page.locator(".timeline-entry", has_text="Claim 3 refused")
    verdict = entry.get_by_role("link", name="Verdict").bounding_box()
    time = entry.locator("a.number").bounding_box()
    assert verdict is not None
    assert time is not None
    assert abs(verdict["y"] - time["y"]) < 8
    assert verdict["width"] > verdict["height"]


def test_files_are_granted_and_work_is_reviewed(
    page: Page, operator: Operator, tmp_path: Path
) -> None:
    swarm = operator.create_swarm("inbox-review", "Reviews")
    repo = Repo(tmp_path / "repo")
    operator.operate(
        "spawn_subtask",
        swarm_id=swarm,
        bead_id="t-1",
        subtask_title="Give a token",
        files=["src/auth/"],
        repo=str(repo.path),
        success_criteria=[CRITERION],
        target="main",
        review="required",
        policy={"scope_requests": "ask", **FEWER_RUNS},
        submit=True,
    )
    operator.start(swarm, "w-1")
    operator.bus(
        "request_scope", swarm, bead_id="t-1", paths=["README.md"], reason="a note", name="w-1"
    )
    page.goto("/#/inbox")
    scope = item(page, "Wants more files: Give a token")
    expect(scope).to_contain_text("README.md")
    scope.get_by_role("button", name="Grant").click()
    expect(scope).to_have_count(0)
    requests = operator.bus("list_scope_requests", swarm, only_open=False)["requests"]
    assert [each["status"] for each in requests] == ["granted"]

    commit = repo.commit("work", HONEST)
    claim = {"bead_id": "t-1", "name": "w-1", "commit": commit, "summary": "done"}
    operator.bus("swarm_complete", swarm, **claim, wait_ms=10_000)
    review = item(page, "Review: Give a token")
    expect(review).to_contain_text(commit[:8])
    # The palette has no decision on it: it names no commit.
    page.goto(f"/#/s/{swarm}/board")
    page.get_by_role("link", name="Give a token").focus()
    page.keyboard.press("Control+k")
    palette = page.get_by_role("dialog", name="Commands")
    expect(palette.get_by_role("option", name=re.compile("Approve|Reject"))).to_have_count(0)
    palette.get_by_role("option", name="Review …").click()
    expect(page.get_by_role("button", name="Approve…")).to_be_visible()
    expect(page.get_by_role("region", name="Changes of src/auth/login.py")).to_be_visible()

    page.goto("/#/inbox")
    review.get_by_role("button", name="Approve").click()
    dialog = page.get_by_role("dialog", name=f"Approve {commit[:8]}")
    dialog.get_by_role("button", name="Cancel").click()
    review.get_by_role("button", name="Reject").click()
    dialog = page.get_by_role("dialog", name="Reject this work")
    dialog.get_by_label("Reason").fill("The token must expire")
    dialog.get_by_role("button", name="Reject").click()
    expect(review).to_have_count(0)
    shown = operator.bus("show_task", swarm, bead_id="t-1")["review"]
    assert (shown["state"], shown["reason"]) == ("rejected", "The token must expire")
