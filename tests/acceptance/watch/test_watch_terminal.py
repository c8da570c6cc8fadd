"""The program on a real terminal, without a server, and across a restart of one."""

from __future__ import annotations

import json
import os
import pty
import select
import termios
import time
from pathlib import Path

import pytest

from shiftboss.cli.common.command import ServerSession
from tests.acceptance.bus.bus import submitted
from tests.acceptance.bus.bus_calls import InSwarm
from tests.acceptance.watch.watching import watching, watching_session
from tests.commands import environment, shiftboss
from tests.fork_server import start_python
from tests.running import RunningServer

pytestmark = pytest.mark.requirement("OWN-04")

SECONDS = 60.0


class Terminal:
    """A terminal of 80 by 24 with the program on it."""

    def __init__(self, url: str, swarm: str) -> None:
        self.ours, self.theirs = pty.openpty()
        termios.tcsetwinsize(self.theirs, (24, 80))
        self.settings = termios.tcgetattr(self.theirs)
        self.written = b""
        self.process = start_python(
            ["-m", "shiftboss.cli.main", "watch", swarm],
            environment=environment(url),
            stdin=self.theirs,
            stdout=self.theirs,
            stderr=self.theirs,
        )

    def read_until(self, words: bytes) -> None:
        deadline = time.monotonic() + SECONDS
        while words not in self.written:
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self.ours], [], [], max(left, 0))
            assert ready, f"{words!r} did not come:\n{self.written!r}"
            self.written += os.read(self.ours, 65536)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.ours)
        os.close(self.theirs)


def test_it_starts_on_a_terminal_and_leaves_it_as_it_was(
    shared_server: RunningServer, bus: InSwarm
) -> None:
    submitted(bus, "t-1")
    terminal = Terminal(shared_server.url, bus.swarm_id)
    try:
        terminal.read_until(b"\x1b[?1049h")  # another screen
        terminal.read_until(b"WAITING 1")
        os.write(terminal.ours, b"q")
        terminal.read_until(b"\x1b[?1049l")  # the screen from before
        terminal.read_until(b"\x1b[?25h")  # the cursor
        assert terminal.process.wait(SECONDS) == 0
        assert termios.tcgetattr(terminal.theirs) == terminal.settings
    finally:
        terminal.close()


def test_without_a_terminal_it_names_the_commands_that_need_none(
    shared_server: RunningServer, bus: InSwarm
) -> None:
    submitted(bus, "t-1")
    refused = shiftboss("watch", bus.swarm_id, url=shared_server.url)
    assert (refused.code, refused.out) == (1, "")
    assert "needs a terminal" in refused.err
    assert "shiftboss status" in refused.err
    once = shiftboss("watch", bus.swarm_id, "--once", url=shared_server.url)
    assert once.code == 0, once
    assert "WAITING 1" in once.out
    printed = json.loads(shiftboss("watch", bus.swarm_id, "--json", url=shared_server.url).out)
    assert [card["bead_id"] for card in printed["cards"]] == ["t-1"]


@pytest.mark.anyio
async def test_it_reconnects_to_a_server_that_comes_back(
    server: RunningServer,
) -> None:
    bus = InSwarm(server.url)
    submitted(bus, "t-1")
    async with watching(server, bus.swarm_id) as watcher:
        await watcher.shows("WAITING 1")
        server.kill()
        await watcher.shows("no connection for", "WAITING 1")
        server.start()
        submitted(bus, "t-2")
        await watcher.shows("WAITING 2")
        await watcher.hides("no connection for")
    bus.close()


@pytest.mark.anyio
async def test_without_a_server_it_shows_and_changes_what_the_database_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / ".shiftboss"
    state.mkdir(mode=0o700)
    server = RunningServer(state / "shiftboss.db").start()
    bus = InSwarm(server.url)
    submitted(bus, "t-1")
    bus.close()
    server.stop()
    monkeypatch.chdir(tmp_path)
    for name in ("SHIFTBOSS_URL", "SHIFTBOSS_DB", "SHIFTBOSS_TASK"):
        monkeypatch.delenv(name, raising=False)
    async with watching_session(ServerSession(None, None, as_json=False), None) as watcher:
        await watcher.shows("no server is running", "WAITING 1", "t-1")
        await watcher.press("c")
        await watcher.asks("Cancel t-1?")
        await watcher.press("y")
        await watcher.asks("Why is t-1 cancelled?")
        await watcher.press("enter")
        await watcher.shows("t-1 is cancelled", "DONE 1")
    shown = shiftboss("task", "show", "t-1", "--json", folder=tmp_path)
    assert json.loads(shown.out)["status"] == "cancelled"
    server.close()
