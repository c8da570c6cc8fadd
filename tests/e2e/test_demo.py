"""The demo: real processes are killed, nothing is lost, nothing is left running."""

from __future__ import annotations

import json
import re
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.client import Client
from tests.commands import Running, running, shiftboss
from tests.waiting import wait_until


class Surroundings:
    """An empty home, a folder for temporary files, and a mark that every child process inherits."""

    def __init__(self, folder: Path) -> None:
        self.mark = uuid.uuid4().hex
        home, self.temporary = folder / "home", folder / "temporary"
        for one in (home, self.temporary):
            one.mkdir()
        self.variables = {
            "DEMO_TEST_MARK": self.mark,
            "HOME": str(home),
            "TMPDIR": str(self.temporary),
            # Those of somebody at work: the demo must not touch any of it.
            "SHIFTBOSS_URL": "http://127.0.0.1:1",
            "SHIFTBOSS_TOKEN": "somebody-elses",
            "SHIFTBOSS_DB": str(folder / "not-this.db"),
            "GIT_DIR": str(folder / "not-this-repository"),
        }

    def processes(self) -> list[psutil.Process]:
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            return bool(process.environ().get("DEMO_TEST_MARK") == self.mark)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return False


@pytest.fixture
def surroundings(tmp_path: Path) -> Iterator[Surroundings]:
    found = Surroundings(tmp_path)
    yield found
    for process in found.processes():
        process.kill()


@pytest.mark.requirement("SW-04", "SW-07", "SW-10")
def test_the_demo_loses_nothing_and_leaves_nothing_running(surroundings: Surroundings) -> None:
    done = shiftboss("demo", **surroundings.variables)
    assert (done.code, done.err) == (0, ""), done
    assert surroundings.processes() == []
    summary = [" ".join(line.split()) for line in done.out.splitlines()]
    for fact in (
        r"ok worker web-page was killed and resumed from its checkpoint with [2-9] tasks done",
        r"ok task-2 of search-index failed, was scheduled for a retry and then done",
        r"ok the server was killed after event \d+ and lost nothing: .*",
        r"ok \d+ reports were queued while the server was dead, and delivered",
        r"ok all 40 tasks were counted once",
        r"ok git has every reported commit, and the work of every task",
        r"ok the swarm is complete: 4 workers complete, 0 to go, ready to merge",
    ):
        assert any(re.fullmatch(fact, line) for line in summary), fact


@pytest.mark.requirement("SW-04", "SW-10")
def test_what_the_demo_leaves_can_be_looked_at_again(surroundings: Surroundings) -> None:
    with running("demo", "--keep", **surroundings.variables) as demo:
        lines = list(_lines_until(demo, "Ctrl-C stops it"))
        address = re.findall(r"http://127\.0\.0\.1:\d+", lines[-1])[0]
        swarm_id = re.findall(r"/swarm/(\S+)/status", lines[-1])[0]
        client = Client(address)
        before = client.status(swarm_id)
        client.close()
        demo.signal(signal.SIGINT)
        assert demo.end().code == 0
    assert surroundings.processes() == []
    (database,) = surroundings.temporary.glob("shiftboss-demo-*/shiftboss.db")
    assert any(line.endswith(f"shiftboss serve --db {database}") for line in lines)
    with running("serve", "--port", "0", "--db", str(database), "--json") as serving:
        address = json.loads(serving.line())["address"]
        again = shiftboss("swarm", "show", swarm_id, "--json", url=address)
        assert json.loads(again.out) == before
        assert before["status"] == "complete"


@pytest.mark.requirement("SW-10")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["ctrl-c", "term"]
)
def test_a_demo_that_is_interrupted_leaves_nothing_running(
    surroundings: Surroundings, number: signal.Signals, code: int
) -> None:
    with running("demo", **surroundings.variables) as demo:
        list(_lines_until(demo, "task-1 completed"))
        assert len(surroundings.processes()) >= 6  # the demo, the server, four workers
        demo.signal(number)
        done = demo.end()
    assert (done.code, done.err) == (code, "")
    wait_until(lambda: surroundings.processes() == [], "all processes have ended")


def _lines_until(demo: Running, ending: str) -> Iterator[str]:
    while True:
        line = demo.line()
        yield line
        if ending in line:
            return
