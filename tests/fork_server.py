"""Start Shiftboss servers and commands in separate processes without waiting for its imports.

Importing Shiftboss takes longer than most tests. So each test process has one helper
(`fork_server_process`) that has imported everything and forks whenever a test needs a server or a
command. The forked process behaves like any other: it gets its own arguments, environment, working
directory and streams, it can be killed, and it has an exit code. Two things differ: its parent is
the helper, and /proc shows the command line and the environment of the helper. Tests that depend on
those start a real process (`forked=False`), and so do a few others.

A forked server or run does not wait for imports either when it starts another process of
Shiftboss: `fork_proxy` stands in for it. Tests of these processes use the fixture `new_children`.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from tests.fork_server_process import PROXY, STATUS
from tests.kill_with_parent import KillWithParent

START_SECONDS = 120.0  # of CPU time, it takes two
_HELPER = Path(__file__).with_name("fork_server_process.py")
_PIECE = 65536

Stream = int | IO[Any]


def start_python(
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | str | None = None,
    stdin: Stream = subprocess.DEVNULL,
    stdout: Stream = subprocess.PIPE,
    stderr: Stream = subprocess.PIPE,
    forked: bool = True,
) -> Process:
    """Start `python -m MODULE ...` or `python -c PROGRAM ...`; the rest is like `Popen`."""
    variables = dict(os.environ if environment is None else environment)
    if forked and sys.platform == "linux":  # system libraries elsewhere do not survive a fork
        helper = _the_helper()
        if helper.accepts(variables):
            return helper.fork(arguments, variables, folder, (stdin, stdout, stderr))
    return StartedProcess(
        [sys.executable, *arguments],
        env=variables,
        cwd=folder,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        bufsize=0,  # so that `select` sees unread output
    )


def forked_command(arguments: Sequence[str]) -> list[str]:
    """The command line of a `python ...` for a program that starts it itself, such as a client of
    MCP. It is forked, and so is what Shiftboss starts in forked processes; see `fork_proxy`."""
    if sys.platform != "linux":
        return [sys.executable, *arguments]
    return [sys.executable, "-I", "-S", str(PROXY), _the_helper().address, *arguments]


class StartedProcess(subprocess.Popen[bytes]):
    """A process that is killed when the tests end, however they end."""

    def __init__(self, argv: list[str], **how: Any) -> None:
        super().__init__(argv, **how)
        self._killer = KillWithParent(self.pid)

    def wait(self, timeout: float | None = None) -> int:
        code = super().wait(timeout)
        self._killer.release()
        return code


class ForkedProcess:
    """The part of `subprocess.Popen` that tests need. The streams are binary."""

    def __init__(
        self,
        pid: int,
        status: socket.socket,
        stdin: IO[bytes] | None,
        stdout: IO[bytes] | None,
        stderr: IO[bytes] | None,
    ) -> None:
        self.pid = pid
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        self.returncode: int | None = None
        self._status = status
        self._written = {out: b"" for out in (stdout, stderr) if out is not None}

    def poll(self) -> int | None:
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._look(timeout)
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
        return code

    def communicate(self, timeout: float | None = None) -> tuple[bytes, bytes]:
        """Read its output until it closes its streams, then wait for it to end."""
        deadline = None if timeout is None else time.monotonic() + timeout
        if self.stdin is not None:
            self.stdin.close()
        unread = [out for out in self._written if not out.closed]
        while unread:
            ready, _, _ = select.select(unread, [], [], _left(deadline))
            if not ready:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
            for out in ready:
                piece = os.read(out.fileno(), _PIECE)
                self._written[out] += piece
                if not piece:
                    unread.remove(out)
                    out.close()
        self.wait(_left(deadline))
        return (
            b"" if self.stdout is None else self._written[self.stdout],
            b"" if self.stderr is None else self._written[self.stderr],
        )

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                pass  # it has already ended

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        self.wait()

    def _look(self, seconds: float | None) -> int | None:
        """The exit code, or None while the process is running."""
        if self.returncode is None and select.select([self._status], [], [], seconds)[0]:
            self.returncode = _number(self._status)
            self._status.close()
        return self.returncode


Process = StartedProcess | ForkedProcess


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def _number(status: socket.socket) -> int:
    """Receive a process id or an exit code."""
    data = status.recv(STATUS.size)
    assert data, "the helper that forks has ended"
    number: int = STATUS.unpack(data)[0]
    return number


class _Helper:
    """The process that forks. When this process is gone, it kills its children and exits."""

    def __init__(self) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._variables = dict(os.environ)
        self.address = f"shiftboss-tests-{os.getpid()}"
        # Proxies may ask before the helper has started.
        door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, door:
            door.bind("\0" + self.address)
            door.listen(64)
            given = [theirs.fileno(), door.fileno()]
            self._process = subprocess.Popen(
                [sys.executable, _HELPER, self.address, *map(str, given)],
                pass_fds=given,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )

    def close(self) -> None:
        self._requests.close()
        self._process.wait()

    def accepts(self, environment: Mapping[str, str]) -> bool:
        """False if a variable differs that the interpreter reads only at startup."""
        return all(
            self._variables.get(name) == value
            for name, value in environment.items()
            if name.startswith(("PYTHON", "LANG", "LC_")) and name != "PYTHONUNBUFFERED"
        )

    def fork(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        folder: Path | str | None,
        streams: Sequence[Stream],
    ) -> ForkedProcess:
        ours: list[IO[bytes] | None] = []
        request = {
            "arguments": arguments,
            "environment": environment,
            "folder": str(Path(folder or ".").absolute()),
            "umask": _umask(),
        }
        with ExitStack() as theirs:
            status, for_helper = socket.socketpair()
            theirs.enter_context(for_helper)
            descriptors = [for_helper.fileno()]
            for number, stream in enumerate(streams):
                descriptor = _descriptor(number, stream, descriptors, ours, theirs)
                descriptors.append(descriptor)
            socket.send_fds(self._requests, [json.dumps(request).encode()], descriptors)
        ready, _, _ = select.select([status], [], [], START_SECONDS)
        assert ready, "the helper does not fork"
        return ForkedProcess(_number(status), status, *ours)


def _descriptor(
    number: int,
    stream: Stream,
    before: Sequence[int],
    ours: list[IO[bytes] | None],
    theirs: ExitStack,
) -> int:
    """The descriptor of the child's end of a stream. Our end, if there is one, goes to `ours`."""
    if stream == subprocess.PIPE:
        reading, writing = os.pipe()
        mine, given = (writing, reading) if number == 0 else (reading, writing)
        ours.append(os.fdopen(mine, "wb" if number == 0 else "rb", 0))
        theirs.callback(os.close, given)
        return given
    ours.append(None)
    if stream == subprocess.DEVNULL:
        nothing = os.open(os.devnull, os.O_RDWR)
        theirs.callback(os.close, nothing)
        return nothing
    if stream == subprocess.STDOUT:
        return before[2]
    return stream if isinstance(stream, int) else stream.fileno()


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


@cache
def _the_helper() -> _Helper:
    helper = _Helper()
    atexit.register(helper.close)
    return helper
