"""Runs the `shiftboss` command like a person or a script would."""

from __future__ import annotations

import os
import pty
import select
import shlex
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from tests.fork_server import Process, start_python
from tests.fork_server_process import NEW_CHILDREN

COMMAND_SECONDS = 60.0
_MODULE = "shiftboss.cli.main"


class Done(NamedTuple):
    code: int
    out: str
    err: str


def environment(url: str | None = None, **variables: str) -> dict[str, str]:
    """Our environment without settings for another server or terminal."""
    foreign = ("SHIFTBOSS_", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TERM")
    kept = {
        name: value
        for name, value in os.environ.items()
        if name == NEW_CHILDREN or not name.startswith(foreign)
    }
    server = {} if url is None else {"SHIFTBOSS_URL": url}
    return kept | {"TERM": "xterm-256color"} | server | variables


def shiftboss(
    *arguments: str, url: str | None = None, folder: Path | str | None = None, **variables: str
) -> Done:
    """Run the command in a folder and wait for it; its output goes to pipes."""
    with start_python(
        ["-m", _MODULE, *arguments], environment=environment(url, **variables), folder=folder
    ) as process:
        try:
            out, err = process.communicate(timeout=COMMAND_SECONDS)
        finally:
            process.kill()
    return Done(process.wait(), _text(out), _text(err))


def imported_by(*arguments: str, url: str, folder: Path | None = None) -> set[str]:
    """The top-level packages that the command imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", _MODULE, *arguments],
        env=environment(url),
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    imported = {line.rpartition("|")[2].strip().split(".")[0] for line in done.stderr.splitlines()}
    assert "shiftboss" in imported
    return imported


def as_printed(command: str, *more: str, folder: Path | str | None = None) -> Done:
    """Run a command line of an output: settings, `shiftboss`, arguments."""
    words = shlex.split(command)
    program = words.index("shiftboss")
    settings = dict(word.split("=", 1) for word in words[:program])
    return shiftboss(*words[program + 1 :], *more, folder=folder, **settings)


def _text(written: bytes) -> str:
    return written.decode().replace("\r\n", "\n").replace("\r", "\n")


def on_terminal(
    *arguments: str,
    url: str | None,
    columns: int,
    folder: Path | None = None,
    on_output: Callable[[bytes], None] = lambda _: None,
    **variables: str,
) -> str:
    """The output of the command on a terminal of that width. `on_output` gets each part of it."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (50, columns))
    with start_python(
        ["-m", _MODULE, *arguments],
        environment=environment(url, **variables),
        folder=folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        written = b""
        for part in _read_all(ours):
            written += part
            on_output(part)
        os.close(ours)
        assert process.wait(COMMAND_SECONDS) == 0, written
    return written.decode().replace("\r\n", "\n")


def _read_all(descriptor: int) -> Iterator[bytes]:
    while True:
        try:
            part = os.read(descriptor, 65536)
        except OSError:  # Linux reports a closed terminal this way
            return
        if not part:
            return
        yield part


class Running:
    """A running command."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def line(self) -> str:
        """The next line of its output."""
        return self._line_of(self._process.stdout)

    def error_line(self) -> str:
        """The next line that it writes to stderr."""
        return self._line_of(self._process.stderr)

    @staticmethod
    def _line_of(out: IO[bytes] | None) -> str:
        assert out is not None
        ready, _, _ = select.select([out], [], [], COMMAND_SECONDS)
        assert ready, "no line came"
        line = out.readline().decode()
        assert line, "the command has ended"
        return line.rstrip("\n")

    def hang_up(self) -> None:
        """Stop reading its output."""
        assert self._process.stdout is not None
        self._process.stdout.close()

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> Done:
        """Wait for the command to end; the result has the unread output."""
        out, err = self._process.stdout, self._process.stderr
        assert out is not None
        assert err is not None
        code = self._process.wait(COMMAND_SECONDS)
        return Done(code, "" if out.closed else out.read().decode(), err.read().decode())


@contextmanager
def running(
    *arguments: str, url: str | None = None, folder: Path | str | None = None, **variables: str
) -> Iterator[Running]:
    """The command is killed at the end of the `with` block at the latest."""
    with _until_the_end(arguments, environment(url, **variables), True, folder) as it:
        yield it


@contextmanager
def running_unforked(*arguments: str, **variables: str) -> Iterator[Running]:
    """The same for tests that inspect it in /proc: see `fork_server`."""
    with _until_the_end(arguments, environment(**variables), False) as it:
        yield it


@contextmanager
def _until_the_end(
    arguments: Sequence[str],
    variables: dict[str, str],
    forked: bool,
    folder: Path | str | None = None,
) -> Iterator[Running]:
    with start_python(
        ["-m", _MODULE, *arguments], environment=variables, forked=forked, folder=folder
    ) as process:
        try:
            yield Running(process)
        finally:
            process.kill()
            process.wait()
