"""A person follows a run in the browser, from its first task to the last one that lands."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from shiftboss.system.state_folder import ServerRecord, read_server_file
from tests.client import Client
from tests.commands import Running
from tests.e2e.page.browsing import Chromium, Watched
from tests.e2e.page.parts import card, column, item, part, view
from tests.e2e.page.shop.project import QUESTION, SWARM, TITLES, ShopProject, shop_task
from tests.e2e.runs.operator_day import running_run
from tests.plan_runs import FEWER_RUNS
from tests.running import RunningServer
from tests.waiting import wait_until

START_SECONDS = 60.0
TASKS = ("tokens", "limits", "mail", "audit", "sessions")
ANSWER = "Back to the basket."
# The line is there for half a second only, if the server returns quickly.
NOTE_LOSS = """() => {
  const look = () => {
    if (document.body.textContent.includes("Connection lost"))
      document.documentElement.dataset.wasLost = "yes";
  };
  new MutationObserver(look).observe(document.body, { childList: true, subtree: true });
}"""


@pytest.fixture
def project(tmp_path: Path) -> ShopProject:
    project = ShopProject(tmp_path)
    project.script["audit"]["waits_for"] = str(project.marks / "go")
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
        watched.expect(
            "ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_INCOMPLETE_CHUNKED_ENCODING|"
            "ERR_EMPTY_RESPONSE|ERR_SOCKET_NOT_CONNECTED"
        )
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


def asked(client: Client, operation: str, **members: object) -> Any:
    return client.post(f"/bus/{operation}", {"swarm_id": SWARM, **members}).json()


@pytest.mark.timeout(300)
@pytest.mark.requirement("OWN-04", "CC-18")
def test_run_is_followed_and_decided_from_first_task_to_landed(
    project: ShopProject, run: Running, watched: Watched
) -> None:
    address = address_of(project)
    with closing(Client(address)) as client:
        page = watched.page()
        page.goto(project.login_link())
        view(page, "Board")
        watch_work(page, project)
        grant_files(page, client)
        crash_and_return(page, project)
        answer_question(page, client)
        read_refusal(page)
        approve_work(page)
    assert run.end().code == 0
    assert sorted(project.landed()[1:]) == sorted(TITLES[name] for name in TASKS)
    database = project.folder / ".shiftboss" / "shiftboss.db"
    with (
        closing(RunningServer(database, port=urlsplit(address).port)) as server,
        closing(Client(address)) as client,
    ):
        come_back(page, server)
        replay(page)
        check_facts(client, project)


def watch_work(page: Page, project: ShopProject) -> None:
    expect(card(page, "Done", "tokens")).to_be_visible()
    at_work = column(page, "Running").get_by_role("listitem").filter(has_text=TITLES["audit"])
    expect(at_work).to_contain_text("1/3 files")
    at_work.get_by_role("link").click()
    about = page.get_by_role("complementary")
    expect(about).to_contain_text("WORKING · writing new code · 1/3 files")
    (project.marks / "go").touch()


def grant_files(page: Page, client: Client) -> None:
    view(page, "Board")
    card_of = column(page, "Needs you").get_by_role("listitem").filter(has_text=TITLES["audit"])
    card_of.get_by_role("link", name="Decide").click()
    wish = item(page, "Wants more files", "audit")
    expect(wish).to_contain_text("settings.py")
    wish.get_by_role("button", name="Grant").click()
    expect(wish).to_have_count(0)
    [request] = asked(client, "list_scope_requests", only_open=False)["requests"]
    assert (request["paths"], request["status"]) == (["settings.py"], "granted")


def crash_and_return(page: Page, project: ShopProject) -> None:
    """The run starts its server again, and the page returns by itself."""
    view(page, "Board")
    server = server_of(project)
    assert server is not None
    page.evaluate(NOTE_LOSS)
    os.kill(server.pid, signal.SIGKILL)
    expect(page.locator("html")).to_have_attribute("data-was-lost", "yes")
    expect(page.get_by_text("Connection lost")).to_have_count(0)
    expect(card(page, "Done", "audit")).to_be_visible()


def answer_question(page: Page, client: Client) -> None:
    page.get_by_role("link", name="1 needs you", exact=True).click()
    question = item(page, "Question", "mail")
    expect(question).to_contain_text(QUESTION)
    question.get_by_role("textbox").fill(ANSWER)
    question.get_by_role("button", name="Send answer").click()
    expect(question).to_have_count(0)
    answered = asked(client, "list_questions", only_open=False)["questions"]
    answers = {each["question"]: each["answer"] for each in answered}
    assert answers[QUESTION] == ANSWER


def read_refusal(page: Page) -> None:
    """The first claim of the task was refused: the check that failed, and the lines in question."""
    view(page, "Board")
    card(page, "Done", "limits").click()
    part(page, "Verdict")
    page.get_by_role("list", name="Claims").get_by_role("link", name="refused").click()
    expect(page.get_by_role("heading", name=re.compile("Refused"))).to_be_visible()
    failed = page.locator("details.check.failed")
    expect(failed).to_contain_text("test_sixth_mail_of_an_hour_is_refused")
    part(page, "Diff")
    page.get_by_role("link", name="1", exact=True).click()
    expect(page.get_by_role("region", name="Changes of limits.py")).to_contain_text(
        "if len(recent) > MAILS_PER_HOUR:"
    )


def approve_work(page: Page) -> None:
    view(page, "Inbox")
    review = item(page, "Review", "sessions")
    review.get_by_role("link", name="Show diff").click()
    expect(page.get_by_role("region", name="Changes of sessions.py")).to_contain_text("DAYS = 30")
    page.get_by_role("button", name="Approve…").click()
    dialog = page.get_by_role("dialog", name=re.compile("^Approve"))
    dialog.get_by_role("button", name="Approve").click()
    expect(dialog).to_have_count(0)
    view(page, "Board")


def come_back(page: Page, server: RunningServer) -> None:
    """The run and its server have ended. Another server shows what they left."""
    expect(page.get_by_text("Connection lost")).to_be_visible()
    server.start()
    expect(page.get_by_text("Connection lost")).to_have_count(0)
    expect(card(page, "Done", "sessions")).to_be_visible()
    expect(page.locator('.fact[data-fact="progress"] dd')).to_contain_text("5 / 5")


def replay(page: Page) -> None:
    view(page, "Replay")
    slider = page.get_by_role("slider", name="Event")
    # Of the replay: the board, which it takes the place of, has the same cards.
    expect(page.locator(".replay-task")).to_have_count(len(TASKS))
    slider.focus()
    page.keyboard.press("Home")
    expect(page.get_by_text("The swarm was created")).to_be_visible()
    expect(page.locator(".replay-task")).to_have_count(0)
    page.get_by_role("combobox", name="Speed").select_option("100 events/s")
    page.get_by_role("button", name="Play").click()
    for name in TASKS:
        expect(card(page, "Done", name)).to_be_visible()


def check_facts(client: Client, project: ShopProject) -> None:
    assert asked(client, "show_task", bead_id="sessions")["review"]["state"] == "approved"
    tasks = asked(client, "replay_swarm")["tasks"]
    commits = project.git("log", "--format=%H", "main").splitlines()
    assert {each["bead_id"] for each in tasks if each["landed"] in commits} == set(TASKS)
