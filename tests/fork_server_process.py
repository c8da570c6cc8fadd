"""The process that imports Shiftboss once and forks for every server and every command.

`python tests/fork_server_process.py FD`: the descriptor is one end of a socket, see `fork_server`.

In a child, `serve_forks` returns the program to run, so that it runs at the top level like any
script: the interpreter handles its exceptions, its exit code and its shutdown.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TextIO

# Modules that are imported late, or by other libraries at run time.
LATE = (
    "asyncio.base_events",
    "encodings.idna",
    "psycopg_pool",
    "rich.console",
    "rich.progress",
    "rich.status",
    "rich.table",
    "stringprep",
    "typer.rich_utils",
    "uvicorn.lifespan.on",
    "uvicorn.loops.auto",
    "uvicorn.loops.uvloop",
)
# The maximum size of a request: a command line and its environment.
LONGEST = 1 << 18
# Carries a process id first, then an exit code.
STATUS = struct.Struct("=i")

Program = Callable[[], object]


def preload() -> None:
    import shiftboss

    for module in pkgutil.walk_packages(shiftboss.__path__, "shiftboss."):
        importlib.import_module(module.name)
    for name in LATE:
        try:
            importlib.import_module(name)
        except ImportError:
            pass  # not available, and not needed, on every system
    # Memory shared with the children is copied when the garbage collector touches it.
    gc.collect()
    gc.freeze()


def serve_forks(requests: socket.socket) -> Program:
    """Fork for every request and report the exit codes. Returns only in the children.

    A closed request socket means that the tests are gone: the remaining children are killed.
    """
    assert len([*Path("/proc/self/task").iterdir()]) == 1, "a fork would lose the other threads"
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for the tests and the children
    waker, woken = socket.socketpair()
    for end in (waker, woken):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
    children: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([requests, woken], [], [])
        if woken in ready:
            woken.recv(4096)
            _report_exits(children)
        if requests not in ready:
            continue
        message, descriptors, _, _ = socket.recv_fds(requests, LONGEST, 4)
        if not message:
            for pid in children:
                os.kill(pid, signal.SIGKILL)
            os._exit(0)
        status = socket.socket(fileno=descriptors[0])
        pid = os.fork()
        if pid == 0:
            for inherited in (requests, waker, woken, status, *children.values()):
                inherited.close()
            return _become(json.loads(message), descriptors[1:])
        children[pid] = status
        for descriptor in descriptors[1:]:
            os.close(descriptor)
        status.send(STATUS.pack(pid))


def _report_exits(children: dict[int, socket.socket]) -> None:
    while children:
        pid, how = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with children.pop(pid) as status:
            try:
                status.send(STATUS.pack(os.waitstatus_to_exitcode(how)))
            except BrokenPipeError:
                pass  # nobody is waiting for it


def _become(request: dict[str, Any], descriptors: list[int]) -> Program:
    """Set up everything that a process normally inherits from its parent."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.umask(request["umask"])
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    tempfile.tempdir = None
    os.chdir(request["folder"])
    sys.stdin = _stream(0, sys.stdin)
    sys.stdout = _stream(1, sys.stdout)
    sys.stderr = _stream(2, sys.stderr)
    return partial(_run, *request["arguments"])


def _stream(descriptor: int, like: TextIO) -> TextIO:
    """Open a standard stream like the interpreter does."""
    writes = descriptor > 0
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    buffering = 0 if writes and unbuffered else -1
    return io.TextIOWrapper(
        open(descriptor, "wb" if writes else "rb", buffering, closefd=False),
        encoding=like.encoding,
        errors=like.errors,
        newline="\n" if writes else None,
        line_buffering=not unbuffered and (descriptor == 2 or os.isatty(descriptor)),
        write_through=unbuffered,
    )


def _run(kind: str, program: str, *arguments: str) -> None:
    """Like `python -m PROGRAM ...` or `python -c PROGRAM ...`."""
    sys.argv = [kind, *arguments]
    if kind == "-m":
        sys.path[0] = str(Path.cwd())
        sys.modules.pop(program, None)
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        assert kind == "-c", kind
        sys.path[0] = ""
        exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})


def _end_at_once(code: int) -> None:
    """Exit like the interpreter, but skip its module teardown, which takes longer than a command.

    Returns if the output cannot be written: the interpreter then reports that itself.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        return
    os._exit(code & 0xFF)


if __name__ == "__main__":
    line = socket.socket(fileno=int(sys.argv[1]))
    preload()
    program = serve_forks(line)
    try:
        program()
        _end_at_once(0)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            _end_at_once(end.code or 0)
        raise
