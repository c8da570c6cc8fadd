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
CYCLES_PER_UPDATE = 3
CYCLES_OF_AN_HOUR = 6000
IDLE_SECONDS = 60
SECONDS_AFTER_STORM = 15
OF_SWARM = f"/#/s/{SWARM}"
ADDRESS = f"{OF_SWARM}/board"
OTHER_VIEWS = ("graph", "workers", "events", "replay")
UPDATES_OF_OTHERS = 10
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


def run(folder: Path, seconds: int = IDLE_SECONDS, cycles: int = CYCLES_OF_AN_HOUR) -> list[Figure]:
    if not any(map(shutil.which, CHROMIUM)):
        return []
    with shiftboss(folder / "page.db") as server, _chromium() as browser:
        swarm = LargeSwarm(server.url)
        swarm.fill()
        first = min(_first_view(browser, server.url) for _ in range(LOADS))
        tab = Tab(browser, server.url)
        figures = [
            Figure("page: first view, 10,000 tasks", first, "ms", at_most=1000),
            *_updates(tab, swarm),
            *_other_views(tab, swarm),
            *_hour(tab, swarm, cycles),
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
        self._renderer = self._find_renderer(browser)

    def settle(self) -> None:
        """Wait until all cards are loaded and every answer is shown."""
        self.page.locator(".column[data-column=done] .column-count:not(:has-text('+'))").wait_for()
        self.page.wait_for_timeout(3000)

    def main_thread_seconds(self) -> float:
        """Processor time: what else runs on the machine does not count."""
        return _main_thread_seconds(self._renderer)

    def metrics(self) -> dict[str, float]:
        found: list[dict[str, Any]] = self._cdp.send("Performance.getMetrics")["metrics"]
        return {each["name"]: each["value"] for each in found}

    def _find_renderer(self, browser: Browser) -> int:
        """The process that works when this tab does: Chromium keeps others for the next tabs."""
        session = browser.new_browser_cdp_session()
        processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
        ids = [int(each["id"]) for each in processes if each["type"] == "renderer"]
        before = {process: _main_thread_seconds(process) for process in ids}
        self.page.evaluate("const end = performance.now() + 500; while (performance.now() < end);")
        return max(ids, key=lambda process: _main_thread_seconds(process) - before[process])

    def heap_megabytes(self) -> float:
        self._cdp.send("HeapProfiler.collectGarbage")
        return float(self._cdp.send("Runtime.getHeapUsage")["usedSize"]) / 1e6

    def private_megabytes(self) -> float:
        """The memory of the tab's process that it shares with no other."""
        self.heap_megabytes()
        rollup = Path(f"/proc/{self._renderer}/smaps_rollup").read_text()
        lines = (line.split() for line in rollup.splitlines() if line.startswith("Private_"))
        return sum(int(line[1]) for line in lines) * 1024 / 1e6

    def take_long_tasks(self) -> list[float]:
        durations: list[float] = self.page.evaluate("longTasks.splice(0)")
        return durations


def _main_thread_seconds(process: int) -> float:
    return int(Path(f"/proc/{process}/task/{process}/schedstat").read_text().split()[0]) / 1e9


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
    spent = sorted(_milliseconds_of_updates(tab, swarm, UPDATES))
    often = spent[int(0.9 * len(spent))]
    return [
        Figure("page: main thread per update, median", median(spent), "ms", at_most=50),
        Figure("page: main thread per update, nine of ten", often, "ms", at_most=50),
    ]


def _other_views(tab: Tab, swarm: LargeSwarm) -> Iterator[Figure]:
    for view in OTHER_VIEWS:
        tab.page.goto(f"{OF_SWARM}/{view}")
        tab.page.wait_for_timeout(4000)
        spent = median(_milliseconds_of_updates(tab, swarm, UPDATES_OF_OTHERS))
        yield Figure(f"page: main thread per update, {view}", spent, "ms", at_most=50)
    tab.page.goto(ADDRESS)
    tab.settle()
    tab.take_long_tasks()


def _milliseconds_of_updates(tab: Tab, swarm: LargeSwarm, updates: int) -> list[float]:
    """Each is what happens in a second of an hour with ten events per second."""
    spent = []
    for _ in range(updates):
        before = tab.main_thread_seconds()
        swarm.work(CYCLES_PER_UPDATE)
        tab.page.wait_for_timeout(500)
        spent.append((tab.main_thread_seconds() - before) * 1000)
    return spent


def _hour(tab: Tab, swarm: LargeSwarm, cycles: int) -> list[Figure]:
    before, private = tab.heap_megabytes(), tab.private_megabytes()
    events = swarm.work(cycles)
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
        Figure("page: private memory of the tab's process, at first", private, "MB", at_most=150),
        Figure("page: the same after them", tab.private_megabytes(), "MB", at_most=150),
        Figure("page: longest task meanwhile", longest, "ms"),
    ]


def _idle(tab: Tab, server: Server, seconds: int) -> list[Figure]:
    """The difference between a page that is open and none: the server has duties of its own."""
    # After a storm of events, all cards are loaded once more.
    tab.page.wait_for_timeout(SECONDS_AFTER_STORM * 1000)
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
