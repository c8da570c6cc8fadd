"""The server of a run: one that is already running, or one that is started for the run."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx2

from shiftboss.client.backoff import backoff_delays
from shiftboss.client.server_address import Server
from shiftboss.defaults import HOST, OPERATOR_TOKEN_VARIABLE, PORT
from shiftboss.errors import ShiftbossError
from shiftboss.orchestrator.run.progress import Progress
from shiftboss.system.child_process import kill_group, start_process
from shiftboss.system.file_locks import folder_lock

START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 15.0
# The server of a killed run stops by itself and then releases the database.
DATABASE_RELEASE_SECONDS: Final = 30.0
# A server that is killed while it starts is started again; one that exits by itself is not.
START_TRIES: Final = 5
# After so many restarts of a server that lives for less than SHORT_LIFE_SECONDS, the run gives up.
RESTARTS_MAX: Final = 20
SHORT_LIFE_SECONDS: Final = 10.0


class ServerDown(ShiftbossError):
    """No server is running, and none could be started."""

    code = "server_down"
    status = 503
    title = "There is no server"


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """If no server is running at `server`, one is started there. With `own`, one is always started,
    on any free port. `operator_token` is the token of a started server; without it, only the run
    knows the token."""

    server: Server
    database: str
    log: Path
    policy: Path | None = None
    own: bool = False
    operator_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class RunServer:
    """`operator_token` is None if the run did not start the server."""

    server: Server
    operator_token: str | None = field(default=None, repr=False)


async def is_reachable(server: Server) -> bool:
    """Whether an HTTP server answers. The first call finds out whether it is a Shiftboss server."""
    try:
        async with server.async_client() as client:
            await client.get("/", timeout=2.0)
    except httpx2.RequestError:
        return False
    return True


@asynccontextmanager
async def server_for_run(options: ServerOptions, progress: Progress) -> AsyncIterator[RunServer]:
    """Yields the server. A server that was started here is restarted if it exits. If that fails too
    often, the body of the `async with` is cancelled and ServerDown is raised."""
    if not options.own and await is_reachable(options.server):
        yield RunServer(options.server)
        return
    process = _ServerProcess(options, progress)
    address = await process.start()
    supervising = asyncio.create_task(process.supervise())
    body = asyncio.current_task()
    assert body is not None
    supervising.add_done_callback(lambda task: None if task.cancelled() else body.cancel())
    try:
        yield RunServer(Server(address, options.server.token), process.operator_token)
    except asyncio.CancelledError:
        if supervising.done() and not supervising.cancelled():
            body.uncancel()
            supervising.result()
        raise
    finally:
        supervising.cancel()
        await asyncio.gather(supervising, return_exceptions=True)
        await process.stop()


class _ServerProcess:
    """A server that was started for a run. Its standard input is a pipe from the run: it stops when
    the pipe is closed, however the run ended. The first line in the pipe is the operator's token:
    agents run as the same user, and could read it from a file or from the environment."""

    def __init__(self, options: ServerOptions, progress: Progress) -> None:
        self._options = options
        self._progress = progress
        self.operator_token = options.operator_token or secrets.token_urlsafe(32)
        self._process: asyncio.subprocess.Process | None = None
        address = urlsplit(options.server.address)
        self._host = address.hostname or HOST
        self._port = 0 if options.own else address.port or PORT

    async def start(self) -> str:
        """Returns the address, which stays the same after a restart."""
        await _wait_for_database(self._options.database)
        for _ in range(START_TRIES):
            line = await self._start_and_read_line()
            if line:
                address = str(json.loads(line)["address"])
                self._port = urlsplit(address).port or self._port
                return address
            assert self._process is not None
            was_killed = (self._process.returncode or 0) < 0
            await self.stop()
            if not was_killed:
                break
        raise ServerDown("the server did not start", hint=self._log_hint())

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
                env={
                    key: value
                    for key, value in os.environ.items()
                    if key != OPERATOR_TOKEN_VARIABLE
                },
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{self.operator_token}\n".encode())
        try:
            async with asyncio.timeout(START_SECONDS):
                line = await self._process.stdout.readline()
                if not line.endswith(b"\n"):
                    await self._process.wait()
                    return b""
        except TimeoutError:
            return b""
        return line

    def _argv(self) -> list[str]:
        argv = [sys.executable, "-m", "shiftboss.cli.main", "serve", "--db", self._options.database]
        argv += ["--host", self._host, "--port", str(self._port)]
        argv += ["--operator-token-from-input", "--spawning", "operator"]
        argv += ["--ends-with-input", "--json"]
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


async def _wait_for_database(database: str) -> None:
    """Wait until no server has the database open. After a timeout, the start of the new server
    fails and names the one that still has it."""
    if "://" in database:
        return
    file = await asyncio.to_thread(Path(database).resolve)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DATABASE_RELEASE_SECONDS), folder_lock(file.parent, file.name):
            pass  # this is the server's own lock; release it at once
