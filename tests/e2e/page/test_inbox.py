"""The inbox: what needs a person is answered, granted and decided right there."""

from __future__ import annotations

from pathlib import Path

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
    review.get_by_role("button", name="Reject").click()
    dialog = page.get_by_role("dialog", name="Reject this work")
    dialog.get_by_label("Reason").fill("The token must expire")
    dialog.get_by_role("button", name="Reject").click()
    expect(review).to_have_count(0)
    shown = operator.bus("show_task", swarm, bead_id="t-1")["review"]
    assert (shown["state"], shown["reason"]) == ("rejected", "The token must expire")
