"""Parts of the page, as a person finds them in the run of the shop."""

from __future__ import annotations

from playwright.sync_api import Locator, Page

from tests.e2e.page.shop.project import TITLES


def column(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True)


def card(page: Page, column_name: str, task: str) -> Locator:
    return column(page, column_name).get_by_role("link", name=TITLES[task])


def item(page: Page, kind: str, task: str) -> Locator:
    return page.get_by_role("article", name=f"{kind}: {TITLES[task]}", exact=True)


def view(page: Page, name: str) -> None:
    page.get_by_role("navigation", name="Views").get_by_role("link", name=name).click()


def part(page: Page, name: str) -> None:
    """Of the task that is shown."""
    parts = page.get_by_role("navigation", name="Parts of the task")
    parts.get_by_role("link", name=name).click()
