"""`shiftboss open` where no server is running."""

from __future__ import annotations

import os
import pty
import re
import signal
from pathlib import Path

import pytest

from tests.client import Client
from tests.commands import COMMAND_SECONDS, environment, shiftboss
from tests.fork_server import start_python
from tests.sqlite_files import make_sqlite_file
from tests.waiting import wait_until


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "shiftboss.db"
    make_sqlite_file(path)
    created = shiftboss("swarm", "create", "--id", "left", SHIFTBOSS_DB=str(path))
    assert created.code == 0, created
    return path


class OnTerminal:
    """The command on a terminal; its output so far is `text`."""

    def __init__(self, database: Path, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        os.set_blocking(self._ours, False)
        self.process = start_python(
            ["-m", "shiftboss.cli.main", "open", *arguments],
            environment=environment(SHIFTBOSS_DB=str(database)),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        self.text = ""

    def shows(self, pattern: str) -> re.Match[str] | None:
        try:
            self.text += os.read(self._ours, 65536).decode().replace("\r\n", "\n")
        except OSError:  # nothing new, or the end
            pass
        return re.search(pattern, self.text)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)


@pytest.mark.requirement("OWN-04")
def test_open_serves_what_is_on_disk_until_it_is_interrupted(database: Path) -> None:
    opened = OnTerminal(database, "left", "--print")
    try:
        pattern = r"\n(http://127\.0\.0\.1:\d+)/login#(\S+)\n"
        wait_until(lambda: opened.shows(pattern), "a link", COMMAND_SECONDS)
        link = opened.shows(pattern)
        assert link is not None
        assert "no server was running here: serving the page on" in opened.text
        client = Client(link[1])
        swarms = client.get("/swarms").json()["swarms"]
        client.close()
        assert [swarm["swarm_id"] for swarm in swarms] == ["left"]
        opened.process.send_signal(signal.SIGINT)
        assert opened.process.wait(COMMAND_SECONDS) == 0
    finally:
        opened.close()
    assert not (database.parent / "server.json").exists()


@pytest.mark.requirement("OWN-04")
def test_open_in_a_script_does_not_wait_for_ever(database: Path) -> None:
    done = shiftboss("open", "--print", SHIFTBOSS_DB=str(database))
    assert done.code == 1
    # As printed, it serves this database: SHIFTBOSS_DB was set for one command alone.
    assert f"`shiftboss serve --db {database}`" in done.err
    followed = shiftboss("events", "left", "--follow", SHIFTBOSS_DB=str(database))
    assert followed.err.endswith(f"start one with: shiftboss serve --db {database}\n")


@pytest.mark.requirement("OWN-04")
def test_commands_that_help_name_the_database_too(database: Path) -> None:
    """As the demo prints its commands: SHIFTBOSS_DB is set for one of them alone."""
    variables = {"SHIFTBOSS_DB": str(database)}
    for arguments in (("task", "add", "t", "--title", "T"), ("task", "submit", "t")):
        assert shiftboss(*arguments, "--swarm", "left", **variables).code == 0
    paused = shiftboss("swarm", "pause", "left", "--reason", "lunch", **variables)
    assert paused.code == 0, paused
    command = "shiftboss swarm resume left"
    for question, about in (("why", "t"), ("status", "left")):
        told = shiftboss(question, about, **variables).out
        assert f"  SHIFTBOSS_DB={database} {command}\n" in told


@pytest.mark.requirement("OWN-04")
def test_agent_cannot_open_the_page_of_the_operator(database: Path) -> None:
    done = shiftboss("open", SHIFTBOSS_DB=str(database), SHIFTBOSS_TASK="t")
    assert done.code == 1
    assert "agents cannot act as the operator" in done.err
