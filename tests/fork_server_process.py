"""The process that imports Shiftboss once and forks for every server and every command.

`python tests/fork_server_process.py ADDRESS FD FD`: the first descriptor is one end of a socket,
see `fork_server`. The processes of Shiftboss that its children start are forked as well: a proxy
asks for it at the address, where the second descriptor listens (`fork_proxy`).

In a child, `Helper.serve` returns the program to run, so that it runs at the top level like any
script: the interpreter handles its exceptions, its exit code and its shutdown.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import gc
import importlib
import io
import json
import marshal
import os
import pkgutil
import runpy
import select
import signal
import socket
import struct
import subprocess
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
    "_sha256",
    "anyio._backends._asyncio",
    "asyncio.base_events",
    "encodings.ascii",
    "encodings.idna",
    "httpcore2",
    "importlib.resources.readers",
    "psycopg_pool",
    "rich.console",
    "rich.progress",
    "rich.status",
    "rich.table",
    "stringprep",
    "truststore",
    "typer._click.decorators",
    "typer.rich_utils",
    "uvicorn.lifespan.on",
    "uvicorn.loops.auto",
    "uvicorn.loops.uvloop",
)
# The maximum size of a request: a command line and its environment.
LONGEST = 1 << 18
DESCRIPTORS_MAX = 64
# Set it to start the children of a process anew: for tests that are about them.
NEW_CHILDREN = "SHIFTBOSS_TESTS_NEW_CHILDREN"
PROXY = str(Path(__file__).with_name("fork_proxy.py"))
# What Shiftboss starts and what takes long to import.
_SLOW_STARTS = (
    ["-P", "-m", "shiftboss.evidence.subprocess.main"],
    ["-P", "-m", "shiftboss.cli.main"],
    ["-m", "shiftboss.cli.main"],  # in examples
)
HUGE_PAGE = 2 << 20
MADV_COLLAPSE = 25
# Carries a process id first, then an exit code.
STATUS = struct.Struct("=i")

Program = Callable[[], object]


def preload() -> None:
    gc.disable()  # nothing that is imported is garbage
    import shiftboss

    for module in pkgutil.walk_packages(shiftboss.__path__, "shiftboss."):
        importlib.import_module(module.name)
    for name in LATE:
        try:
            importlib.import_module(name)
        except ImportError:
            pass  # not available, and not needed, on every system
    prepare_little_log()
    _measure_no_cores()
    _warm_caches()
    # Memory shared with the children is copied when the garbage collector touches it.
    gc.collect()
    gc.freeze()
    gc.enable()
    _use_huge_pages()


def _use_huge_pages() -> None:
    """A fork copies an entry per page, and its end frees each one: with large pages that takes half
    of the time. Only Linux can, from 6.1 on."""
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, rights, *_, inode = line.split()[:5]
        if "w" not in rights or inode != "0":
            continue
        start, end = (int(address, 16) for address in addresses.split("-"))
        for page in range(-(-start // HUGE_PAGE) * HUGE_PAGE, end - HUGE_PAGE + 1, HUGE_PAGE):
            advise(page, HUGE_PAGE, MADV_COLLAPSE)


def _measure_no_cores() -> None:
    """A server that starts writes to its disk from each core to find the nearest. If cores are
    busy with other tests, it waits for each of them: a tenth of a second in all."""
    from shiftboss.server.fast_path import core_affinity

    core_affinity.TRIAL_ROUNDS = 0


def _warm_caches() -> None:
    """What every server computes again when it starts: its queries, the regular expressions of its
    routes, its types, and the first key. A quarter of its processor time."""
    from shiftboss.coordinator.coordinator import Coordinator
    from shiftboss.evidence.subprocess.proxy import EvidenceProxy
    from shiftboss.protocol.fields import unbuilt_types
    from shiftboss.server.http.app import App
    from shiftboss.store.open_store import store_at
    from shiftboss.store.postgres import session as postgres_session
    from shiftboss.store.sqlite import session as sqlite_session

    for form in unbuilt_types():
        form.model_rebuild()
    sqlite_session.named_queries()
    postgres_session.named_queries()

    with tempfile.TemporaryDirectory() as folder:
        evidence = EvidenceProxy(Path(folder), None)
        _ = App(Coordinator(store_at(f"{folder}/shiftboss.db"), evidence))._router


def prepare_little_log() -> None:
    """Let SQLite extend its log as it grows.

    A server extends it in advance with 16 MB of zeros, which makes commits to a disk faster. On a
    memory disk that would take a third of the time of its start.
    """
    from shiftboss.store.sqlite import session

    session.WAL_BYTES_READY = 256 * 1024


class Helper:
    """Forks for every request and reports the exit codes."""

    def __init__(self, address: str, requests: socket.socket, door: socket.socket) -> None:
        self.address = address
        self._requests = requests
        self._door = door
        self._waker, self._woken = socket.socketpair()
        for end in (self._waker, self._woken):
            end.setblocking(False)
        self._children: dict[int, socket.socket] = {}
        self._proxies: dict[socket.socket, int] = {}

    def serve(self) -> Program:
        """Returns only in the children.

        A closed request socket means that the tests are gone: the remaining children are killed.
        """
        assert len([*Path("/proc/self/task").iterdir()]) == 1, "a fork would lose other threads"
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests and the children
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        while True:
            watched = [self._requests, self._woken, self._door, *self._proxies]
            ready, _, _ = select.select(watched, [], [])
            if self._woken in ready:
                self._woken.recv(4096)
                self._report_exits()
            for proxy in self._proxies.keys() & {*ready}:
                # It was killed. Its process is to end with it.
                os.kill(self._proxies.pop(proxy), signal.SIGKILL)
            program = None
            if self._requests in ready:
                program = self._fork_for_tests()
            elif self._door in ready:
                program = self._fork_for_proxy()
            if program is not None:
                return program

    def _fork_for_tests(self) -> Program | None:
        message, descriptors, _, _ = socket.recv_fds(self._requests, LONGEST, 4)
        if not message:
            for pid in self._children:
                os.kill(pid, signal.SIGKILL)
            os._exit(0)
        status = socket.socket(fileno=descriptors[0])
        return self._fork(json.loads(message) | {"descriptors": [0, 1, 2]}, status, descriptors[1:])

    def _fork_for_proxy(self) -> Program | None:
        proxy, _ = self._door.accept()
        message, descriptors, _, _ = socket.recv_fds(proxy, LONGEST, DESCRIPTORS_MAX)
        if not message:
            proxy.close()
            return None
        return self._fork(marshal.loads(message), proxy, descriptors, is_proxy=True)

    def _fork(
        self,
        request: dict[str, Any],
        status: socket.socket,
        descriptors: list[int],
        is_proxy: bool = False,
    ) -> Program | None:
        pid = os.fork()
        if pid == 0:
            ours = (self._requests, self._waker, self._woken, self._door, status)
            for inherited in (*ours, *self._children.values()):
                inherited.close()
            return _become(request, descriptors, self.address)
        self._children[pid] = status
        if is_proxy:
            self._proxies[status] = pid
        for descriptor in descriptors:
            os.close(descriptor)
        _tell(status, pid)
        return None

    def _report_exits(self) -> None:
        while self._children:
            pid, how = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            with self._children.pop(pid) as status:
                self._proxies.pop(status, None)
                _tell(status, os.waitstatus_to_exitcode(how))


def _tell(status: socket.socket, number: int) -> None:
    try:
        status.send(STATUS.pack(number))
    except OSError:
        pass  # nobody is waiting for it


def _become(request: dict[str, Any], descriptors: list[int], address: str) -> Program:
    """Set up everything that a process normally inherits from its parent."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if request.get("leads_session"):
        os.setsid()
    elif request.get("leads_group"):
        os.setpgid(0, 0)
    _renumber(descriptors, request["descriptors"])
    os.umask(request["umask"])
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    tempfile.tempdir = None
    os.chdir(request["folder"])
    sys.stdin = _stream(0, sys.stdin)
    sys.stdout = _stream(1, sys.stdout)
    sys.stderr = _stream(2, sys.stderr)
    if os.environ.pop(NEW_CHILDREN, None) is None:
        _fork_slow_starts(address)
    return partial(_run, *request["arguments"])


def _renumber(descriptors: list[int], numbers: list[int]) -> None:
    """Two steps, because a number that is wanted may be in use by another one of them."""
    first_free = max([*descriptors, *numbers]) + 1
    moved = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, first_free) for one in descriptors]
    for one in descriptors:
        os.close(one)
    for one, number in zip(moved, numbers, strict=True):
        os.dup2(one, number)
        os.close(one)


def _fork_slow_starts(address: str) -> None:
    """Let the helper fork what this process would start, too."""

    class Popen(subprocess.Popen[Any]):
        def __init__(self, args: Any, *rest: Any, **options: Any) -> None:
            super().__init__(_by_proxy(args, address), *rest, **options)

    subprocess.Popen = Popen  # type: ignore[misc]


def _by_proxy(args: Any, address: str) -> Any:
    if isinstance(args, list | tuple) and args[0] == sys.executable:
        rest = [str(one) for one in args[1:]]
        if any(rest[: len(start)] == start for start in _SLOW_STARTS):
            return [sys.executable, "-I", "-S", PROXY, address, *rest]
    return args


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


def _run(*arguments: str) -> None:
    """Like `python -m PROGRAM ...`, `python -P -m PROGRAM ...` or `python -c PROGRAM ...`."""
    is_safe_path = arguments[0] == "-P"
    kind, program, *rest = arguments[1:] if is_safe_path else arguments
    sys.argv = [kind, *rest]
    del sys.path[0]  # the folder of this file
    if kind == "-m":
        if not is_safe_path:
            sys.path.insert(0, str(Path.cwd()))
        sys.modules.pop(program, None)
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        assert kind == "-c", kind
        if not is_safe_path:
            sys.path.insert(0, "")
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
    line, door = (socket.socket(fileno=int(number)) for number in sys.argv[2:])
    helper = Helper(sys.argv[1], line, door)
    preload()
    program = helper.serve()
    try:
        program()
        _end_at_once(0)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            _end_at_once(end.code or 0)
        raise
