"""The server of a run: the one that answers, or one of our own for as long as the run lasts."""

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

from shiftboss.client.backoff import pauses
from shiftboss.client.server_address import Server
from shiftboss.errors import ShiftbossError
from shiftboss.orchestrator.run.progress import Progress
from shiftboss.system.child_process import kill_group, start_process
from shiftboss.system.file_locks import turn

START_SECONDS: Final = 30.0
END_SECONDS: Final = 15.0
# The server of a run that was killed ends by itself, and lets go of the database then.
FORMER_SECONDS: Final = 30.0
# One that was killed while it started is started again; one that refuses to is not.
START_TRIES: Final = 5
# So many that lived but a moment, one after the other, and nobody tries any more.
RESTARTS_MAX: Final = 20
MOMENT_SECONDS: Final = 10.0
OPERATOR_VARIABLE: Final = "SHIFTBOSS_OPERATOR_TOKEN"


class ServerDown(ShiftbossError):
    """There is no server, and none could be started."""

    code = "server_down"
    status = 503
    title = "There is no server"


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """`server` is where one is looked for; if there is none, one of our own listens there. With
    `own`, nobody is looked for, and it listens on any free port. `operator_token` is for one of our
    own; without it, nobody but the run ever knows the token."""

    server: Server
    database: str
    log: Path
    policy: Path | None = None
    own: bool = False
    operator_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class RunServer:
    """`operator_token` is that of a server of our own; None: the server is somebody else's."""

    server: Server
    operator_token: str | None = field(default=None, repr=False)


async def answers(server: Server) -> bool:
    """Whether somebody is there who speaks HTTP; who it is, the first call finds out."""
    try:
        async with server.async_client() as client:
            await client.get("/", timeout=2.0)
    except httpx2.RequestError:
        return False
    return True


@asynccontextmanager
async def serving(wish: ServerOptions, board: Progress) -> AsyncIterator[RunServer]:
    """Yields the server. One of our own is started again should it die; when that does not help,
    ServerDown is raised in whoever uses it."""
    if not wish.own and await answers(wish.server):
        yield RunServer(wish.server)
        return
    own = _OwnServer(wish, board)
    address = await own.start()
    keeping = asyncio.create_task(own.keep())
    user = asyncio.current_task()
    assert user is not None
    keeping.add_done_callback(lambda task: None if task.cancelled() else user.cancel())
    try:
        yield RunServer(Server(address, wish.server.token), own.operator_token)
    except asyncio.CancelledError:
        if keeping.done() and not keeping.cancelled():
            user.uncancel()
            keeping.result()
        raise
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        await own.end()


class _OwnServer:
    """Its input is a pipe from us: when that ends, however we ended, it ends, too. The operator's
    token is the first line in it: agents run as the same user, and could read it in a file or in
    the environment of a process."""

    def __init__(self, wish: ServerOptions, board: Progress) -> None:
        self._wish = wish
        self._board = board
        self.operator_token = wish.operator_token or secrets.token_urlsafe(32)
        self._process: asyncio.subprocess.Process | None = None
        where = urlsplit(wish.server.address)
        self._host = where.hostname or "127.0.0.1"
        self._port = 0 if wish.own else where.port or 7432

    async def start(self) -> str:
        """Its address, which stays the same when it is started again."""
        await _is_free(self._wish.database)
        for _ in range(START_TRIES):
            line = await self._first_line()
            if line:
                address = str(json.loads(line)["address"])
                self._port = urlsplit(address).port or self._port
                return address
            assert self._process is not None
            was_killed = (self._process.returncode or 0) < 0
            await self.end()
            if not was_killed:
                break
        raise ServerDown(
            "the server did not start", hint=f"its log is {self._wish.log}: {self._last_line()}"
        )

    async def _first_line(self) -> bytes:
        """Empty when it ended, or says nothing."""
        self._wish.log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._wish.log.open("ab") as log:
            self._process = await start_process(
                tuple(self._argv()),
                kill_group,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                env={key: value for key, value in os.environ.items() if key != OPERATOR_VARIABLE},
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
        argv = [sys.executable, "-m", "shiftboss.cli.main", "serve", "--db", self._wish.database]
        argv += ["--host", self._host, "--port", str(self._port)]
        argv += ["--operator-token-from-input", "--spawning", "operator"]
        argv += ["--ends-with-input", "--json"]
        return argv + (["--policy", str(self._wish.policy)] if self._wish.policy else [])

    async def keep(self) -> None:
        """Raises ServerDown when it dies again and again."""
        restarts, waits = 0, pauses()
        while True:
            assert self._process is not None
            started_at = time.monotonic()
            await self._process.wait()
            if time.monotonic() - started_at > MOMENT_SECONDS:
                restarts, waits = 0, pauses()
            restarts += 1
            if restarts > RESTARTS_MAX:
                raise ServerDown(
                    f"the server was started {RESTARTS_MAX} times and has ended each time",
                    hint=f"its log is {self._wish.log}: {self._last_line()}",
                )
            self._board.say("", "the server has ended; starting it again")
            await asyncio.sleep(next(waits))
            with contextlib.suppress(ServerDown):
                await self.start()

    async def end(self) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(END_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    def _last_line(self) -> str:
        try:
            text = self._wish.log.read_bytes()[-2000:].decode(errors="replace")
        except OSError:
            return ""
        return (text.strip().splitlines() or [""])[-1]


async def _is_free(database: str) -> None:
    """Wait until no server has the database open, for some time: who is there then says so."""
    if "://" in database:
        return
    file = await asyncio.to_thread(Path(database).resolve)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(FORMER_SECONDS), turn(file.parent, file.name):
            pass  # the lock of the server, who may have it now
