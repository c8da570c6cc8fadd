"""A picture of `shiftboss watch` for the docs, taken of a real run.

`python -m tests.e2e.runs.watch_picture docs/watch.svg` makes it.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Final

from shiftboss.cli.common.command import ServerSession
from shiftboss.cli.watch.screens.app import WatchApp
from tests.e2e.runs.operator_day import running_run
from tests.plan_runs import PlanProject, task
from tests.waiting import eventually, wait_until

SWARM: Final = "shop"
COLUMNS: Final = 120
ROWS: Final = 26
WAIT_SECONDS: Final = 90.0
_WEB_FONT: Final = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def make_project(folder: Path) -> PlanProject:
    """Work that lands, hangs, asks, overspends and waits: something for every group."""
    project = PlanProject(folder)
    project.plan(
        task("stock"),
        task("cart", do="ask"),
        task("search", do="overspend", budget={"tokens": 5000}),
        task("banner", do="hang"),
        task("footer", do="hang"),
        task("pay", review="required"),
        task("mail", "pay"),
        task("invoices", "mail", "cart"),
        swarm=SWARM,
        workers=6,
        attempts=1,
        landing="squash",
    )
    return project


async def picture() -> str:
    """The board once something has landed, something waits for a person, and agents are at work."""
    app = WatchApp(ServerSession(None, None, as_json=False), SWARM)
    async with app.run_test(size=(COLUMNS, ROWS)) as pilot:

        def is_telling() -> bool:
            counts, summary = app.model.board.counts(), app.model.summary
            has_landed = summary is not None and summary.done > 0
            return counts["needs_you"] >= 3 and counts["running"] >= 2 and has_landed

        await eventually(is_telling, "agents ask and work", WAIT_SECONDS)
        await pilot.pause(0.5)
        svg = app.export_screenshot(title="shiftboss watch")
    # Without the fonts that a browser would fetch from elsewhere.
    return _WEB_FONT.sub("", svg)


def main(file: Path) -> None:
    target = file.absolute()
    with tempfile.TemporaryDirectory() as folder:
        project = make_project(Path(folder))
        with running_run(project):
            server = project.folder / ".shiftboss" / "server.json"
            wait_until(server.exists, "the run has a server", WAIT_SECONDS)
            os.chdir(project.folder)
            target.write_text(asyncio.run(picture()))
            os.chdir("/")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
