"""The page with 1,000 workers and 10,000 tasks in a real Chromium, and what it costs the server.

`python -m bench.page` runs it alone. Without Chromium it has no figures.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from playwright.sync_api import Browser, CDPSession, Page, sync_playwright

from bench.figures import Figure, show
from bench.page_swarm import SWARM, LargeSwarm
from bench.running import Server, shiftboss

LOADS = 5
# Batches of work that somebody watches, and those of an hour: ten events per second, sent fast.
UPDATES = 40
CYCLES_PER_UPDATE = 10
CYCLES_OF_AN_HOUR = 6000
IDLE_SECONDS = 60
ADDRESS = f"/#/s/{SWARM}/board"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
# When the first cards are painted, and every task of the main thread that takes longer than 50 ms.
_OBSERVE = """
window.longTasks = [];
new PerformanceObserver((list) => longTasks.push(...list.getEntries().map((task) => task.duration)))
  .observe({ type: "longtask", buffered: true });
window.firstCards = new Promise((resolve) => new MutationObserver((_, observer) => {
  if (!document.querySelector("article.card")) return;
  observer.disconnect();
  requestAnimationFrame(() => setTimeout(() => resolve(performance.now())));
}).observe(document, { childList: true, subtree: true }));
"""


def run(folder: Path, seconds: int = IDLE_SECONDS) -> list[Figure]:
    if not any(map(shutil.which, CHROMIUM)):
        return []
    with shiftboss(folder / "page.db") as server, _chromium() as browser:
        swarm = LargeSwarm(server.url)
        swarm.fill()
        first = median(_first_view(browser, server.url) for _ in range(LOADS))
        tab = Tab(browser, server.url)
        figures = [
            Figure("page: first view, 10,000 tasks", first, "ms", at_most=1000),
            *_updates(tab, swarm),
            *_hour(tab, swarm),
            *_idle(tab, server, seconds),
        ]
        tab.page.close()
    return figures


class Tab:
    """An open board, and the processor time and memory of its main thread."""

    def __init__(self, browser: Browser, url: str) -> None:
        self.page: Page = browser.new_context(base_url=url).new_page()
        self.page.add_init_script(_OBSERVE)
        self._cdp: CDPSession = self.page.context.new_cdp_session(self.page)
        self._cdp.send("Performance.enable")
        self.page.goto(ADDRESS)
        self.settle()

    def settle(self) -> None:
        """Wait until all cards are loaded and every answer is shown."""
        self.page.locator(".column[data-column=done] .column-count:not(:has-text('+'))").wait_for()
        self.page.wait_for_timeout(3000)

    def metrics(self) -> dict[str, float]:
        found: list[dict[str, Any]] = self._cdp.send("Performance.getMetrics")["metrics"]
        return {each["name"]: each["value"] for each in found}

    def heap_megabytes(self) -> float:
        self._cdp.send("HeapProfiler.collectGarbage")
        return float(self._cdp.send("Runtime.getHeapUsage")["usedSize"]) / 1e6

    def take_long_tasks(self) -> list[float]:
        durations: list[float] = self.page.evaluate("longTasks.splice(0)")
        return durations


def _first_view(browser: Browser, url: str) -> float:
    """Milliseconds from the click on a link to the first cards on the screen, without a cache."""
    context = browser.new_context(base_url=url)
    page = context.new_page()
    page.add_init_script(_OBSERVE)
    page.goto(ADDRESS)
    milliseconds: float = page.evaluate("firstCards")
    context.close()
    return milliseconds


def _updates(tab: Tab, swarm: LargeSwarm) -> list[Figure]:
    tab.take_long_tasks()
    spent = []
    for _ in range(UPDATES):
        before = tab.metrics()["TaskDuration"]
        swarm.work(CYCLES_PER_UPDATE)
        tab.page.wait_for_timeout(500)
        spent.append((tab.metrics()["TaskDuration"] - before) * 1000)
    longest = max(tab.take_long_tasks(), default=0.0)
    return [
        Figure("page: main thread per update, median", median(spent), "ms", at_most=50),
        Figure("page: longest task of the main thread, above 50 ms", longest, "ms"),
    ]


def _hour(tab: Tab, swarm: LargeSwarm) -> list[Figure]:
    before = tab.heap_megabytes()
    events = swarm.work(CYCLES_OF_AN_HOUR)
    tab.settle()
    longest = max(tab.take_long_tasks(), default=0.0)
    peak = tab.metrics()["JSHeapTotalSize"] / 1e6
    return [
        Figure("page: heap of the tab, at first", before, "MB", at_most=150),
        Figure(
            f"page: heap of the tab after {events:,} events",
            tab.heap_megabytes(),
            "MB",
            at_most=150,
        ),
        Figure("page: heap of the tab, with what is not collected yet", peak, "MB", at_most=150),
        Figure("page: longest task meanwhile", longest, "ms"),
    ]


def _idle(tab: Tab, server: Server, seconds: int) -> list[Figure]:
    """The difference between a page that is open and none: the server has duties of its own."""
    with_page = _server_share(server, seconds)
    tab.page.goto("about:blank")
    time.sleep(2)
    without = _server_share(server, seconds)
    return [
        Figure("page: idle, of one core of the server", with_page - without, "%", at_most=0.1),
        Figure("server without a page, of one core", without, "%"),
    ]


def _server_share(server: Server, seconds: int) -> float:
    before = server.precise_cpu_seconds()
    time.sleep(seconds)
    return (server.precise_cpu_seconds() - before) / seconds * 100


@contextmanager
def _chromium() -> Iterator[Browser]:
    path = next(filter(None, map(shutil.which, CHROMIUM)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield browser
        browser.close()


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="shiftboss-bench-") as name:
        show(run(Path(name)))


if __name__ == "__main__":
    main()
