"""Pictures of the page for the README, light and dark, and a recorded session, of a real run.

`python -m tests.e2e.page.pictures docs/pictures` makes them.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, Page, expect

from shiftboss.system.state_folder import read_server_file
from tests.commands import Running
from tests.e2e.page.browsing import Chromium
from tests.e2e.page.parts import card, column, item, part, view
from tests.e2e.page.png_files import Frame, animation, smaller
from tests.e2e.page.shop.project import TITLES, ShopProject, shop_task
from tests.e2e.runs.operator_day import running_run
from tests.plan_runs import FEWER_RUNS
from tests.waiting import wait_until

START_SECONDS: Final = 60.0
WAIT_MS: Final = 60_000
SCHEMES: Final = ("light", "dark")
SIZE: Final = (1280, 760)
SESSION_SIZE: Final = (1200, 680)
FRAME_MS: Final = 1600
LAST_FRAME_MS: Final = 4000


def make_project(folder: Path) -> ShopProject:
    """Work that lands, is refused, asks, wants files, goes on and waits: a card in every column."""
    project = ShopProject(folder)
    project.script["form"]["waits_for"] = str(project.marks / "go")
    project.write_plan(
        shop_task("tokens"),
        shop_task("limits"),
        shop_task("mail", "tokens"),
        shop_task("audit"),
        shop_task("form"),
        shop_task("sessions", "mail", review="required"),
        workers=4,
        repos={"shop": {"path": "shop", "verification": {"scope_requests": "ask", **FEWER_RUNS}}},
    )
    return project


class Recording:
    """Frames of what a person does in the page."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.frames: list[Frame] = []

    def take(self, milliseconds: int = FRAME_MS) -> None:
        self.frames.append(Frame(self.page.screenshot(animations="disabled"), milliseconds))


def take_pictures(pages: dict[str, Page], folder: Path) -> None:
    """While the run waits for its operator."""
    for scheme, page in pages.items():
        wait_for_board(page)
        save(page, folder, "board", scheme)
        view(page, "Inbox")
        expect(item(page, "Question", "mail")).to_be_visible()
        save(page, folder, "inbox", scheme)
        view(page, "Graph")
        expect(page.locator(".graph-node")).to_have_count(len(TITLES))
        save(page, folder, "graph", scheme)
        open_refusal(page)
        save(page, folder, "task", scheme)


def wait_for_board(page: Page) -> None:
    for name in ("mail", "audit"):
        expect(card(page, "Needs you", name)).to_be_visible()
    expect(card(page, "Running", "form")).to_be_visible()
    for name in ("tokens", "limits"):
        expect(card(page, "Done", name)).to_be_visible()


def open_refusal(page: Page) -> None:
    view(page, "Board")
    card(page, "Done", "limits").click()
    part(page, "Verdict")
    page.get_by_role("list", name="Claims").get_by_role("link", name="refused").click()
    expect(page.locator("details.check.failed")).to_be_visible()


def save(page: Page, folder: Path, name: str, scheme: str) -> None:
    picture = page.screenshot(animations="disabled")
    (folder / f"{name}-{scheme}.png").write_bytes(smaller(picture))


def record_session(recording: Recording, project: ShopProject, run: Running) -> None:
    """Grant, answer, look at a refusal, approve."""
    page = recording.page
    wait_for_board(page)
    recording.take()
    page.get_by_role("link", name="2 need you", exact=True).click()
    wish = item(page, "Wants more files", "audit")
    expect(wish).to_be_visible()
    recording.take()
    wish.get_by_role("button", name="Grant").click()
    expect(wish).to_have_count(0)
    question = item(page, "Question", "mail")
    question.get_by_role("textbox").fill("Back to the basket.")
    recording.take()
    question.get_by_role("button", name="Send answer").click()
    expect(question).to_have_count(0)
    view(page, "Board")
    expect(column(page, "Needs you").get_by_text(TITLES["mail"])).to_have_count(0)
    recording.take()
    open_refusal(page)
    recording.take()
    approve(recording)
    (project.marks / "go").touch()
    view(page, "Board")
    for name in TITLES:
        expect(card(page, "Done", name)).to_be_visible()
    recording.take(LAST_FRAME_MS)
    assert run.end().code == 0


def approve(recording: Recording) -> None:
    page = recording.page
    view(page, "Inbox")
    item(page, "Review", "sessions").get_by_role("link", name="Show diff").click()
    expect(page.get_by_role("region", name="Changes of sessions.py")).to_be_visible()
    recording.take()
    page.get_by_role("button", name="Approve…").click()
    dialog = page.get_by_role("dialog", name=re.compile("^Approve"))
    expect(dialog).to_be_visible()
    recording.take()
    dialog.get_by_role("button", name="Approve").click()
    expect(dialog).to_have_count(0)


@contextmanager
def opened(
    browser: Browser, project: ShopProject, size: tuple[int, int], scheme: str
) -> Iterator[Page]:
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if scheme == "dark" else "light",
        reduced_motion="reduce",
    )
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    page.goto(project.login_link())
    view(page, "Board")
    try:
        yield page
    finally:
        context.close()


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        project = make_project(Path(temporary))
        run = stack.enter_context(running_run(project))
        state = project.folder / ".shiftboss"
        wait_until(lambda: read_server_file(state), "the run has a server", START_SECONDS)
        chromium = Chromium()
        stack.callback(chromium.close)
        browser = stack.enter_context(chromium.in_use())
        pages = {
            scheme: stack.enter_context(opened(browser, project, SIZE, scheme))
            for scheme in SCHEMES
        }
        take_pictures(pages, folder)
        recording = Recording(stack.enter_context(opened(browser, project, SESSION_SIZE, "light")))
        record_session(recording, project, run)
        (folder / "session.png").write_bytes(animation(recording.frames))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
