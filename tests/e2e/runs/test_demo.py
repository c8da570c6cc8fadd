"""The demo: much goes wrong, all of it lands, nothing is left running."""

from __future__ import annotations

import json
import re
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from shiftboss.demo.checks import DemoRecord, facts
from shiftboss.demo.repos import make_repos
from tests.client import Client
from tests.commands import Running, running, running_unforked, shiftboss
from tests.waiting import wait_until


class Surroundings:
    """An empty home, a folder for temporary files, and a mark that every child process inherits.

    The mark is looked for in /proc, so the demo is not forked but started.
    """

    def __init__(self, folder: Path) -> None:
        self.mark = uuid.uuid4().hex
        self.home, self.temporary = folder / "home", folder / "temporary"
        for one in (self.home, self.temporary):
            one.mkdir()
        self.variables = {
            "DEMO_TEST_MARK": self.mark,
            "HOME": str(self.home),
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


FACTS = (
    r"weight: its agent was killed; demo-\d took over",
    r"postage: with a full context it was handed over, with a checkpoint, from demo-\d to demo-\d",
    r"header: the git hook refused its commit, which touched page\.py",
    r"header: it went around the hook, and the server refused the claim: page\.py",
    r"basket: it claimed to be done with a failing test, and was refused; then it was mended",
    r"8 of 8 tasks landed, once each: their commits are on main",
    r"no task began before all that it needs had landed",
    r"8 receipts are genuine, checked without the server; CI was green for the commit of each",
    r"units, shop, site: each is free and green",
    r"no process, no work tree and no branch of a task is left",
)


@pytest.mark.requirement("OWN-01", "HO-10", "WP-06", "CC-01")
def test_the_demo_goes_wrong_and_lands_and_can_be_looked_at_again(
    surroundings: Surroundings,
) -> None:
    with running_unforked("demo", "--keep", **surroundings.variables) as demo:
        lines = list(_lines_until(demo, "Ctrl-C stops it"))
        address = re.findall(r"http://127\.0\.0\.1:\d+", lines[-1])[0]
        client = Client(address)
        events = client.stored_events("demo")
        client.close()
        demo.signal(signal.SIGINT)
        done = demo.end()
    assert (done.code, done.err) == (0, ""), lines
    assert surroundings.processes() == []
    for fact in FACTS:
        assert any(re.fullmatch(f"ok  {fact}", line) for line in lines), (fact, lines)
    (folder,) = surroundings.temporary.glob("shiftboss-demo-*")
    assert list(surroundings.temporary.iterdir()) == [folder]
    assert list(surroundings.home.iterdir()) == [], "nothing of it is in the home"
    _check_receipts(folder)
    database, policy = folder / "state" / "shiftboss.db", folder / "shiftboss.yaml"
    again = f"shiftboss serve --db {database} --policy {policy}"
    assert any(line.endswith(again) for line in lines)
    with running("serve", "--port", "0", "--db", str(database), "--json") as serving:
        client = Client(json.loads(serving.line())["address"])
        assert client.stored_events("demo") == events
        client.close()


def _check_receipts(folder: Path) -> None:
    """With the command, and with nothing but the files."""
    receipts = sorted((folder / "receipts").glob("*.json"))
    assert len(receipts) == 8
    key = str(folder / "receipts" / "key.pem")
    checked = shiftboss("receipt", "verify", str(receipts[0]), "--key", key, "--json")
    assert json.loads(checked.out)["genuine"] is True


@pytest.mark.requirement("OWN-01")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "term"])
def test_a_demo_that_is_interrupted_leaves_nothing_running(
    surroundings: Surroundings, number: signal.Signals
) -> None:
    with running_unforked("demo", **surroundings.variables) as demo:
        list(_lines_until(demo, "header: given to"))
        assert len(surroundings.processes()) >= 2  # the demo and the server at least
        demo.signal(number)
        done = demo.end()
    assert (done.code, done.err) == (130, "")
    wait_until(lambda: surroundings.processes() == [], "all processes have ended")
    trees = surroundings.temporary.glob("shiftboss-demo-*/trees/demo/*")
    assert list(trees) == []


@pytest.mark.requirement("OWN-01")
def test_what_did_not_happen_is_no_fact(tmp_path: Path) -> None:
    """Nobody is believed: an empty record proves nothing, and the demo fails."""
    make_repos(tmp_path / "repos")
    found = facts(DemoRecord([], {}, []), tmp_path / "repos", tmp_path / "attempts", processes=1)
    assert len(found) == len(FACTS)
    assert not any(fact.holds for fact in found)


def _lines_until(demo: Running, ending: str) -> Iterator[str]:
    while True:
        line = demo.line()
        yield line
        if ending in line:
            return
