"""What is left of a worker that does not want to end."""

from __future__ import annotations

from pathlib import Path

import pytest

from shiftboss.conformance.worker_process import WorkerProcess
from tests.waiting import wait_until

pytestmark = pytest.mark.requirement("OWN-10")

# Stops its supervisor, ignores signals, and has a child in a session of its own.
STUBBORN = """
trap '' TERM INT HUP
kill -STOP $PPID
setsid sh -c 'echo $$ > child.new && mv child.new child && exec sleep 600'
"""


def test_nothing_survives_of_a_worker_that_stops_its_supervisor(tmp_path: Path) -> None:
    worker = WorkerProcess(["sh", "-c", STUBBORN], {}, tmp_path)
    try:
        wait_until((tmp_path / "child").exists, "the child runs")
        child = Path("/proc", (tmp_path / "child").read_text().strip())
    finally:
        worker.kill()
    wait_until(lambda: not child.exists(), "the child has ended")
