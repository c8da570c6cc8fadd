"""The Chromium of the system. Playwright drives it; it does not bring a browser of its own."""

from __future__ import annotations

from typing import Final

from tests.programs import program

# Without a sandbox it starts in containers too; it loads nothing but our own page.
ARGUMENTS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
    # A third less processor time per page: it draws nothing in three dimensions, and there is no
    # other site to keep apart from.
    "--disable-software-rasterizer",
    "--disable-site-isolation-trials",
    "--process-per-site",
)


def chromium() -> str:
    return program("chromium-headless-shell")
