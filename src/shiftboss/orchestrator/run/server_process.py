"""A server that is started for a run, restarted when it exits, and stopped with the run."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from shiftboss.client.backoff import backoff_delays
from shiftboss.client.local_server import find_live_server
from shiftboss.client.server_address import Server
from shiftboss.client.servers import Servers
from shiftboss.defaults import HOST, OPERATOR_TOKEN_VARIABLE, PORT
from shiftboss.errors import ShiftbossError
from shiftboss.notifications.programs import has_desktop_session
from shiftboss.orchestrator.run.progress import Progress
from shiftboss.system.file_locks import folder_lock, try_lock
from shiftboss.system.private_environment import starting_environment
from shiftboss.system.processes.child_process import kill_group, start_process
from shiftboss.system.processes.descendants import python_argv
from shiftboss.system.state_folder import operator_token

START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 15.0
# The server of a killed run stops by itself and then releases the database.
DATABASE_RELEASE_SECONDS: Final = 30.0
# A server that is killed while it starts is started again; one that exits by itself is not.
START_TRIES: Final = 5
# After so many restarts of a server that lives for less than SHORT_LIFE_SECONDS, the run gives up.
RESTARTS_MAX: Final = 20
SHORT_LIFE_SECONDS: Final = 10.0
# How long a person who restarts a shared server may take before a run starts one in its place.
RETURN_SECONDS: Final = 1.0


class ServerDown(ShiftbossError):
    """No server is running, and none could be started."""

    code = "server_down"
    status = 503
    title = "There is no server"


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """With `server`, the run shares that one. Without it, the run uses the server of its state
    folder, or starts one: on the default port if that is free. With `own`, it always starts one, on
    any free port. `operator_token` is the one that the user has set; without it, the token is kept
    in the state folder."""

    server: Server | Servers | None
    database: str
    state: Path
    log: Path
    policy: Path | None = None
    own: bool = False
    log_options: Sequence[str] = ()
    token: str | None = field(default=None, repr=False)
    operator_token: str | None = field(default=None, repr=False)


class ServerProcess:
    """Its standard input is a pipe from the run: it stops when the pipe is closed, however the run
    ended. The first line in the pipe has the operator's token and the environment, and an address
    of a database, which may contain a password. It is sent when the server is closed to other
    processes: agents, which run as the same user, find none of it in its command line or in the
    environment that it was started with."""

    def __init__(self, options: ServerOptions, progress: Progress) -> None:
        self._options = options
        self._progress = progress
        self._process: asyncio.subprocess.Process | None = None
        self._port = 0 if options.own else PORT
        self._any_port = True

    @cached_property
    def operator_token(self) -> str:
        return self._options.operator_token or operator_token(self._options.state)

    async def start(self) -> str:
        """Returns the address, which stays the same after a restart."""
        if not await is_released(self._options.database):
            self._progress.log("", waits_for(self._options.database))
        await _wait_for_database(self._options.database)
        for _ in range(START_TRIES):
            line = await self._start_and_read_line()
            if line:
                address = str(json.loads(line)["address"])
                self._keep_port_of(address)
                return address
            assert self._process is not None
            was_killed = (self._process.returncode or 0) < 0
            await self.stop()
            if not was_killed:
                break
        raise ServerDown("the server did not start", hint=self._log_hint())

    def _keep_port_of(self, address: str) -> None:
        """The workers of the run know the address."""
        self._port = urlsplit(address).port or self._port
        self._any_port = False

    async def take_over(self, address: str) -> None:
        """Wait until the server that the run shares has ended, then continue with one at the same
        address. If a person or another run is faster to start one, wait again."""
        self._keep_port_of(address)
        while True:
            await _until_free(self._options.database)
            self._progress.log("", "the shared server has ended; starting one in its place")
            try:
                await self.start()
            except ServerDown:
                if await asyncio.to_thread(find_live_server, self._options.state) is None:
                    raise
            else:
                break
        await self.supervise()

    async def _start_and_read_line(self) -> bytes:
        """The first line of its output. Empty if it exited, or printed nothing in time."""
        self._options.log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._options.log.open("ab") as log:
            self._process = await start_process(
                tuple(self._argv()),
                kill_group,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                env=starting_environment(),
            )
        try:
            async with asyncio.timeout(START_SECONDS):
                if await self._read_line():
                    self._send_secrets()
                    return await self._read_line()
        except TimeoutError:
            pass
        return b""

    async def _read_line(self) -> bytes:
        """Empty if it exited before the end of the line."""
        assert self._process is not None
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line.endswith(b"\n"):
            await self._process.wait()
            return b""
        return line

    def _send_secrets(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        variables = {k: v for k, v in os.environ.items() if k != OPERATOR_TOKEN_VARIABLE}
        secrets = {
            "operator_token": self.operator_token,
            "environment": variables,
            "database": None if is_file(self._options.database) else self._options.database,
        }
        self._process.stdin.write(json.dumps(secrets).encode() + b"\n")

    def _argv(self) -> list[str]:
        argv = python_argv("shiftboss.cli.main", "serve")
        if is_file(self._options.database):
            argv += ["--db", self._options.database]
        argv += ["--host", HOST, "--port", str(self._port)]
        argv += ["--any-port-if-taken"] if self._any_port else []
        argv += ["--secrets-from-input", "--spawning", "operator"]
        argv += ["--ends-with-input", "--json"]
        argv += self._options.log_options
        argv += ["--desktop-notifications"] if _is_on_desktop() else []
        return argv + (["--policy", str(self._options.policy)] if self._options.policy else [])

    async def supervise(self) -> None:
        """Restart the server whenever it exits. Raises ServerDown if it keeps exiting."""
        restarts, waits = 0, backoff_delays()
        while True:
            assert self._process is not None
            started_at = time.monotonic()
            await self._process.wait()
            if time.monotonic() - started_at > SHORT_LIFE_SECONDS:
                restarts, waits = 0, backoff_delays()
            restarts += 1
            if restarts > RESTARTS_MAX:
                raise ServerDown(
                    f"the server was started {RESTARTS_MAX} times and exited each time",
                    hint=self._log_hint(),
                )
            self._progress.log("", "the server has exited; restarting it")
            await asyncio.sleep(next(waits))
            with contextlib.suppress(ServerDown):
                await self.start()

    async def stop(self) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    def _log_hint(self) -> str:
        try:
            text = self._options.log.read_bytes()[-2000:].decode(errors="replace")
        except OSError:
            text = ""
        last_line = (text.strip().splitlines() or [""])[-1]
        return f"see its log, {self._options.log}: {last_line}"


def _is_on_desktop() -> bool:
    """Whether somebody sits in front of this run: in a terminal on a desktop."""
    return sys.stderr.isatty() and has_desktop_session(os.environ)


async def _wait_for_database(database: str) -> None:
    """Wait until no server has the database open. After a timeout, the start of the new server
    fails and names the one that still has it."""
    if not is_file(database):
        return
    file = await asyncio.to_thread(Path(database).resolve)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DATABASE_RELEASE_SECONDS), folder_lock(file.parent, file.name):
            pass  # this is the server's own lock; release it at once


async def _until_free(database: str) -> None:
    """Wait until no server has the database open, and none has opened it a moment later."""
    is_free = False
    while not is_free:
        await asyncio.sleep(RETURN_SECONDS)
        if is_file(database) and await is_released(database):
            await asyncio.sleep(RETURN_SECONDS)
            is_free = await is_released(database)


def waits_for(database: str) -> str:
    return f"waiting for another server to release {database}"


async def is_released(database: str) -> bool:
    """Whether a server can open the database now."""
    return not is_file(database) or await asyncio.to_thread(_can_lock, Path(database))


def is_file(database: str) -> bool:
    return "://" not in database


def _can_lock(database: Path) -> bool:
    """This is the server's own lock; it is released at once."""
    lock = try_lock(Path(f"{database.resolve()}.lock"))
    if lock is not None:
        os.close(lock)
    return lock is not None
