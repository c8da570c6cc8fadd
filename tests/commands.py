"""The command `shiftboss`, run as a person or a script runs it."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.leash import Leash

COMMAND_SECONDS = 60.0
_MODULE = "shiftboss.cli.main"


class Done(NamedTuple):
    code: int
    out: str
    err: str


def environment(url: str | None = None, **variables: str) -> dict[str, str]:
    """Ours, without what is set for another server or another terminal."""
    foreign = ("SHIFTBOSS_", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TERM")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    server = {} if url is None else {"SHIFTBOSS_URL": url}
    return kept | {"TERM": "xterm-256color"} | server | variables


def shiftboss(
    *arguments: str, url: str | None = None, folder: Path | str | None = None, **variables: str
) -> Done:
    """Run the command to its end, in a folder, with pipes for its output."""
    done = subprocess.run(
        [sys.executable, "-m", _MODULE, *arguments],
        env=environment(url, **variables),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def on_terminal(*arguments: str, url: str, columns: int) -> str:
    """What the command writes to a terminal of that width."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (50, columns))
    with subprocess.Popen(
        [sys.executable, "-m", _MODULE, *arguments],
        env=environment(url),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        written = b"".join(_read_all(ours))
        os.close(ours)
        assert process.wait(COMMAND_SECONDS) == 0, written
    return written.decode().replace("\r\n", "\n")


def _read_all(descriptor: int) -> Iterator[bytes]:
    while True:
        try:
            part = os.read(descriptor, 65536)
        except OSError:  # how Linux says that the other end of a terminal is closed
            return
        if not part:
            return
        yield part


class Running:
    """The command while it runs."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def line(self) -> str:
        """The next line of its output."""
        out = self._process.stdout
        assert out is not None
        ready, _, _ = select.select([out], [], [], COMMAND_SECONDS)
        assert ready, "no line came"
        line = out.readline().decode()
        assert line, "the command has ended"
        return line.rstrip("\n")

    def hang_up(self) -> None:
        """Nobody reads its output any more."""
        assert self._process.stdout is not None
        self._process.stdout.close()

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> Done:
        """Its end, with the output that was not read yet."""
        out, err = self._process.stdout, self._process.stderr
        assert out is not None
        assert err is not None
        code = self._process.wait(COMMAND_SECONDS)
        return Done(code, "" if out.closed else out.read().decode(), err.read().decode())


@contextmanager
def running(*arguments: str, url: str | None = None, **variables: str) -> Iterator[Running]:
    """Whatever it does, it is gone at the end of the `with`."""
    with subprocess.Popen(
        [sys.executable, "-m", _MODULE, *arguments],
        env=environment(url, **variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,  # what is not read by us is seen by `select`
    ) as process:
        leash = Leash(process.pid)
        try:
            yield Running(process)
        finally:
            process.kill()
            process.wait()
            leash.let_go()
