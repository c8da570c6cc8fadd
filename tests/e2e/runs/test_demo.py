"""The demo: agents fail, everything lands, nothing is left running."""

from __future__ import annotations

import json
import re
import signal
import uuid
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from shiftboss.demo.checks import DemoRecord, facts
from shiftboss.demo.plan import write_plan
from shiftboss.demo.repos import create_repos
from shiftboss.demo.run import DemoPaths, first_lines, wait_for_interrupt
from shiftboss.demo.server import DemoServer
from tests.client import Client
from tests.commands import Running, as_printed, running, running_unforked, shiftboss
from tests.waiting import wait_until


class IsolatedUser:
    """An empty home, a folder for temporary files, and a mark that every child process inherits.

    The mark is read from /proc, so the demo is started as a new process and not forked.
    """

    def __init__(self, folder: Path) -> None:
        self.mark = uuid.uuid4().hex
        self.folder = folder
        self.home, self.temporary = folder / "home", folder / "temporary"
        self.home.mkdir()
        self.temporary.mkdir()
        self.variables = {
            "DEMO_TEST_MARK": self.mark,
            "HOME": str(self.home),
            "TMPDIR": str(self.temporary),
            # Settings of a user at work: the demo must not use any of them.
            "SHIFTBOSS_URL": "http://127.0.0.1:1",
            "SHIFTBOSS_TOKEN": "somebody-elses",
            "SHIFTBOSS_DB": str(folder / "not-this.db"),
            "GIT_DIR": str(folder / "not-this-repository"),
        }

    def processes(self) -> list[psutil.Process]:
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def _is_ours(self, process: psutil.Process) -> bool:
        """A process with secrets has erased its environment: it has the folder in its arguments."""
        try:
            is_marked = process.environ().get("DEMO_TEST_MARK") == self.mark
            return is_marked or any(str(self.folder) in word for word in process.cmdline())
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return False


@pytest.fixture
def user(tmp_path: Path) -> Iterator[IsolatedUser]:
    user = IsolatedUser(tmp_path)
    yield user
    for process in user.processes():
        process.kill()


_OPENS = re.compile(r"(\S+ shiftboss open demo.*)$")
FACTS = (
    r"weight: its agent was killed, and demo-\d took over",
    r"postage: its context was full; it was handed over with a checkpoint from demo-\d to demo-\d",
    r"header: the git hook refused a commit that changed page\.py",
    r"header: it bypassed the hook, and the server refused the claim because of page\.py",
    r"basket: it claimed to be done with a failing test, was refused, and fixed it",
    r"8 of 8 tasks landed exactly once, and their commits are on main",
    r"no task started before its dependencies had landed",
    r"8 receipts are genuine, verified without the server, and CI was green for each commit",
    r"units, shop, site: unlocked, and CI is green",
    r"no process, work tree or task branch is left behind",
)


@pytest.mark.requirement("OWN-01", "HO-10", "WP-06", "CC-01")
def test_all_work_of_the_demo_lands_despite_failing_agents_and_can_be_explored_later(
    user: IsolatedUser,
) -> None:
    with running_unforked("demo", "--keep", **user.variables) as demo:
        lines = list(_lines_until(demo, "press Ctrl-C to stop it"))
        address = re.findall(r"http://127\.0\.0\.1:\d+", lines[-1])[0]
        client = Client(address)
        events = client.stored_events("demo")
        client.close()
        _check_commands_that_open_the_page(lines, address)
        demo.signal(signal.SIGINT)
        done = demo.end()
    assert (done.code, done.err) == (0, ""), lines
    assert user.processes() == []
    for fact in FACTS:
        assert any(re.fullmatch(f"ok  {fact}", line) for line in lines), (fact, lines)
    (folder,) = user.temporary.glob("shiftboss-demo-*")
    assert list(user.temporary.iterdir()) == [folder]
    assert list(user.home.iterdir()) == [], "nothing is written to the home folder"
    _check_receipts(folder)
    assert any(line == f"page: {address}/#/s/demo/board" for line in lines)
    replay = next(line.removeprefix("to replay") for line in lines if line.startswith("to replay"))
    replayed = as_printed(replay, "--json")
    assert {task["column"] for task in json.loads(replayed.out)["tasks"]} == {"done"}
    database, policy = folder / "state" / "shiftboss.db", folder / "shiftboss.yaml"
    serve = f"shiftboss serve --db {database} --policy {policy}"
    assert any(line.endswith(serve) for line in lines)
    with running("serve", "--port", "0", "--db", str(database), "--json") as serving:
        client = Client(json.loads(serving.line())["address"])
        # The swarm is complete when nothing has happened for a while, or when the server stops.
        assert client.stored_events("demo")[: len(events)] == events
        client.close()


def _check_commands_that_open_the_page(lines: list[str], address: str) -> None:
    """While the demo runs, and at its end: the one of the log, that of the last lines."""
    printed = {match[1] for line in lines if (match := _OPENS.search(line))}
    assert sum("page: " in line and bool(_OPENS.search(line)) for line in lines) == 2, lines
    for command in printed:
        opened = as_printed(command, "--print")
        assert opened.out.startswith(f"{address}/login#"), (command, opened)


def _check_receipts(folder: Path) -> None:
    """Verify them with the command, from the files alone."""
    receipts = sorted((folder / "receipts").glob("*.json"))
    assert len(receipts) == 8
    key = str(folder / "receipts" / "key.pem")
    checked = shiftboss("receipt", "verify", str(receipts[0]), "--key", key, "--json")
    assert json.loads(checked.out)["genuine"] is True


@pytest.mark.requirement("OWN-01")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "term"])
def test_an_interrupted_demo_leaves_nothing_running(
    user: IsolatedUser, number: signal.Signals
) -> None:
    with running_unforked("demo", **user.variables) as demo:
        list(_lines_until(demo, "header: assigned to"))
        assert len(user.processes()) >= 2  # the demo and the server at least
        demo.signal(number)
        done = demo.end()
    assert (done.code, done.err) == (130, "")
    wait_until(lambda: user.processes() == [], "all processes have ended")
    trees = user.temporary.glob("shiftboss-demo-*/trees/demo/*")
    assert list(trees) == []


@pytest.mark.requirement("OWN-01")
def test_the_demos_facts_do_not_hold_without_evidence(tmp_path: Path) -> None:
    """An empty record proves nothing, so the demo fails."""
    create_repos(tmp_path / "repos")
    unproven = facts(DemoRecord([], {}, []), tmp_path / "repos", tmp_path / "attempts", processes=1)
    assert len(unproven) == len(FACTS)
    assert not any(fact.holds for fact in unproven)


class _InterruptedConsole(StringIO):
    """Ctrl-C comes with the line that asks for it, and again right after it."""

    def flush(self) -> None:
        if "press Ctrl-C" in self.getvalue():
            signal.raise_signal(signal.SIGINT)


@pytest.fixture
def _handlers_of_signals() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("_handlers_of_signals")
def test_ctrl_c_that_comes_with_the_last_line_ends_the_demo_normally(tmp_path: Path) -> None:
    paths = DemoPaths(tmp_path)
    write_plan(tmp_path)
    output = _InterruptedConsole()
    with DemoServer(paths.database, paths.policy) as server:
        wait_for_interrupt(Console(file=output), server)
        server.wait()
    assert "press Ctrl-C" in output.getvalue()


def _lines_until(demo: Running, ending: str) -> Iterator[str]:
    while True:
        line = demo.line()
        yield line
        if ending in line:
            return


def test_a_terminal_gets_one_link_to_the_page(tmp_path: Path) -> None:
    """That of the run, which logs in."""
    address = "http://127.0.0.1:7432"
    shown = first_lines(DemoPaths(tmp_path), address, is_terminal=True)
    assert [line for line in shown if line.startswith("page:")] == []
    assert first_lines(DemoPaths(tmp_path), address, is_terminal=False) == [
        *shown,
        f"page: {address}/#/s/demo/board",
    ]
