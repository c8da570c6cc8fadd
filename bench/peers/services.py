"""The servers behind the systems, each started for one measurement and stopped after it.

They listen on free ports of 127.0.0.1, or on a socket in the folder of the measurement.
"""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tests.postgres import Postgres

from bench.peers.systems import Service
from bench.running import shiftboss

# The package of Debian that has each program.
PROGRAMS: Final = {"redis-server": "redis-server", "nats-server": "nats-server"}
_NEEDED: Final[dict[Service, str]] = {"redis": "redis-server", "nats": "nats-server"}
_START_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 30.0
_PAUSE_SECONDS: Final = 0.02
# Its own settings, of which these are what durable means.
_POSTGRES_SETTINGS: Final = ("fsync=on", "synchronous_commit=on", "full_page_writes=on")


def missing_program(service: Service) -> str | None:
    """Why the service cannot run here."""
    program = _NEEDED.get(service)
    if program is not None and _path(program) is None:
        return f"{program} is not installed: apt-get install {PROGRAMS[program]}"
    return None


def missing_packages() -> list[str]:
    return [package for program, package in PROGRAMS.items() if _path(program) is None]


def program_version(program: str) -> str:
    path = _path(program)
    if path is None:
        return "not installed"
    shown = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"\d+\.\d+\.\d+", shown)
    return found.group() if found else shown.strip()


@contextmanager
def running(service: Service, folder: Path) -> Iterator[str]:
    """The place that the adapters get: an address, or the path of a file."""
    with _STARTS[service](folder) as place:
        yield place


@contextmanager
def _sqlite(folder: Path) -> Iterator[str]:
    yield str(folder / "queue.db")


@contextmanager
def _redis(folder: Path) -> Iterator[str]:
    port = _free_port()
    options = ["--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder), "--save", ""]
    with _server("redis-server", [*options, *_APPEND_ONLY], port, folder):
        yield f"redis://127.0.0.1:{port}/0"


_APPEND_ONLY: Final = ("--appendonly", "yes", "--appendfsync", "always")


@contextmanager
def _nats(folder: Path) -> Iterator[str]:
    port = _free_port()
    options = ["--addr", "127.0.0.1", "--port", str(port), "-js", "--store_dir", str(folder)]
    with _server("nats-server", options, port, folder):
        yield f"nats://127.0.0.1:{port}"


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    # Beside it: as root, PostgreSQL runs as another user, whom the folder is closed to.
    with tempfile.TemporaryDirectory(prefix="shiftboss-bench-", dir=folder.parent) as name:
        server = Postgres(Path(name), _POSTGRES_SETTINGS)
        server.initialise()
        server.start()
        try:
            yield server.url("postgres")
        finally:
            server.stop()


@contextmanager
def _ours(folder: Path) -> Iterator[str]:
    with shiftboss(folder / "bench.db") as server:
        yield server.url


@contextmanager
def _ours_on_postgres(folder: Path, servers: int = 1) -> Iterator[str]:
    with postgres(folder) as url, ExitStack() as started:
        yield ",".join(started.enter_context(shiftboss(url)).url for _ in range(servers))


@contextmanager
def _two_of_ours(folder: Path) -> Iterator[str]:
    with _ours_on_postgres(folder, servers=2) as places:
        yield places


_STARTS: Final[dict[Service, Callable[[Path], AbstractContextManager[str]]]] = {
    "sqlite": _sqlite,
    "redis": _redis,
    "postgres": postgres,
    "nats": _nats,
    "shiftboss": _ours,
    "shiftboss-postgres": _ours_on_postgres,
    "shiftboss-two": _two_of_ours,
}


@contextmanager
def _server(program: str, options: list[str], port: int, folder: Path) -> Iterator[None]:
    path = _path(program)
    assert path is not None, f"{program} is missing"
    with (folder / f"{program}.log").open("wb") as log:
        process = subprocess.Popen([path, *options], stdout=log, stderr=log)
    try:
        _wait_until_it_answers(process, port)
        yield
    finally:
        process.terminate()
        process.wait(_STOP_SECONDS)


def _wait_until_it_answers(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            assert process.poll() is None, "the server ended"
            assert time.monotonic() < deadline, "the server does not answer"
            time.sleep(_PAUSE_SECONDS)
        else:
            return


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _path(program: str) -> str | None:
    # Debian keeps some servers where only root looks.
    return shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin")
