"""One browser for all tests of a process, and pages that report what must not happen in them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    sync_playwright,
)

from tests.e2e.page.chromium import ARGUMENTS, chromium

# Generous: the machine may be busy.
WAIT_MS = 30_000
_REPORT_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`CSP violation: ${event.violatedDirective} ${event.blockedURI}`));
"""


class Chromium:
    """Playwright's loop counts as running between its calls, which the event loops of other tests
    in this process would trip over. So it is marked as running only while a test browses."""

    def __init__(self) -> None:
        self._playwright = sync_playwright().start()
        self._loop = asyncio.get_running_loop()
        self.browser: Browser = self._playwright.chromium.launch(
            executable_path=chromium(), args=list(ARGUMENTS)
        )
        self._unmark()

    def close(self) -> None:
        with self.in_use():
            self.browser.close()
            self._playwright.stop()

    @contextmanager
    def in_use(self) -> Iterator[Browser]:
        asyncio._set_running_loop(self._loop)
        try:
            yield self.browser
        finally:
            self._unmark()

    def _unmark(self) -> None:
        asyncio._set_running_loop(None)


class Watched:
    """A browser context that collects console errors, violations of the Content-Security-Policy,
    and requests to other hosts."""

    def __init__(self, browser: Browser, url: str, **options: Any) -> None:
        self._url = url
        self._expected: list[re.Pattern[str]] = []
        self.problems: list[str] = []
        self.context: BrowserContext = browser.new_context(base_url=url, **options)
        self.context.set_default_timeout(WAIT_MS)
        self.context.add_init_script(_REPORT_VIOLATIONS)
        self.context.on("console", self._console)
        self.context.on("weberror", lambda error: self.problems.append(f"thrown: {error.error}"))
        self.context.on("request", self._request)

    def expect(self, pattern: str) -> None:
        """Console errors that belong to the test, such as those of a server that it stops."""
        self._expected.append(re.compile(pattern))

    def page(self) -> Page:
        return self.context.new_page()

    def close(self) -> None:
        self.context.close()

    def check(self) -> None:
        problems = [
            each for each in self.problems if not any(e.search(each) for e in self._expected)
        ]
        assert problems == []

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"{message.type}: {message.text} ({message.location.get('url')})")

    def _request(self, request: Request) -> None:
        if not request.url.startswith((f"{self._url}/", "data:", "blob:")):
            self.problems.append(f"request to another host: {request.url}")
