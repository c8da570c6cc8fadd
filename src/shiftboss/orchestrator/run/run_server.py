"""The server of a run: one that the user names, the running one of the state folder, or its own."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import httpx2

from shiftboss.client.backoff import backoff_delays
from shiftboss.client.errors import ServerBusy, ServerUnreachable, TlsFailed, UnrecognizedReply
from shiftboss.client.http_client import HttpClient, ServerRequest
from shiftboss.client.local_server import find_live_server
from shiftboss.client.server_address import Server
from shiftboss.client.servers import Servers
from shiftboss.defaults import OPERATOR_TOKEN_FILE, TOKEN_VARIABLE
from shiftboss.orchestrator.run.progress import Progress
from shiftboss.orchestrator.run.server_process import (
    DATABASE_RELEASE_SECONDS,
    ServerDown,
    ServerOptions,
    ServerProcess,
    is_released,
    waits_for,
)
from shiftboss.system.state_folder import ServerRecord, operator_token, read_server_file

# How long a server that the user has named may take to answer.
SHARED_SERVER_SECONDS: Final = 2.0
DATABASE_POLL_SECONDS: Final = 0.1
_WITHOUT_IT: Final = "leave out --server and SHIFTBOSS_URL: then the run starts its own server"


@dataclass(frozen=True, slots=True)
class RunServer:
    """`operator_token` is None if the run does not know it."""

    server: Servers
    operator_token: str | None = field(default=None, repr=False)


@asynccontextmanager
async def server_for_run(options: ServerOptions, progress: Progress) -> AsyncIterator[RunServer]:
    """Yields the server. A server that was started here is restarted if it exits. If that fails too
    often, the body of the `async with` is cancelled and ServerDown is raised."""
    if options.server is not None and not options.own:
        shared = Servers.at(options.server)
        await _check_shared_server(shared, progress)
        yield RunServer(shared, _operator_token_for(options, str(shared.addresses)))
        return
    running = None if options.own else await _running_server(options, progress)
    process = ServerProcess(options, progress)
    if running is not None:
        address, token = running.address, _operator_token_for(options, running.address)
        supervising = asyncio.create_task(process.take_over(address))
    else:
        if os.environ.get(TOKEN_VARIABLE):
            progress.log("", f"its server requires the token in {TOKEN_VARIABLE} of every client")
        address, token = await process.start(), process.operator_token
        supervising = asyncio.create_task(process.supervise())
    body = asyncio.current_task()
    assert body is not None
    supervising.add_done_callback(lambda task: None if task.cancelled() else body.cancel())
    try:
        yield RunServer(Servers([Server(address, options.token)]), token)
    except asyncio.CancelledError:
        if supervising.done() and not supervising.cancelled():
            body.uncancel()
            supervising.result()
        raise
    finally:
        supervising.cancel()
        await asyncio.gather(supervising, return_exceptions=True)
        await process.stop()


async def _check_shared_server(server: Servers, progress: Progress) -> None:
    """Raises ServerDown, within seconds, if nothing answers or it is not a Shiftboss server."""
    request = ServerRequest(
        path="/health", members=("version", "store"), timeout=httpx2.Timeout(SHARED_SERVER_SECONDS)
    )
    deadline = time.monotonic() + SHARED_SERVER_SECONDS
    for number, pause in enumerate(backoff_delays()):
        try:
            await HttpClient(server).send(request)
        except ServerBusy:
            return
        except UnrecognizedReply as error:
            raise ServerDown(
                f"{server.addresses} answers, but it is not a Shiftboss server",
                hint=f"correct the address, or {_WITHOUT_IT}",
            ) from error
        except TlsFailed as error:
            raise ServerDown(error.detail, hint=error.hint) from error
        except ServerUnreachable as error:
            if time.monotonic() + pause > deadline:
                raise ServerDown(
                    f"no server at {server.addresses}", hint=f"start it, or {_WITHOUT_IT}"
                ) from error
            if number == 0:
                progress.log("", f"no answer from {server.addresses}; trying again")
        else:
            return
        await asyncio.sleep(pause)


def _operator_token_for(options: ServerOptions, address: str) -> str | None:
    """Of a server that the run shares: the token that the user has set, or that of the state folder
    if this is the folder's server. It is not sent to any other server."""
    record = read_server_file(options.state)
    is_of_folder = record is not None and record.address == address
    has_file = (options.state / OPERATOR_TOKEN_FILE).exists()
    if options.operator_token is None and is_of_folder and has_file:
        return operator_token(options.state)
    return options.operator_token


async def _running_server(options: ServerOptions, progress: Progress) -> ServerRecord | None:
    """The server of the state folder. None: there is none, and the database is free. If the
    database stays in use without a server that answers, the start of a new one will say so."""
    deadline = time.monotonic() + DATABASE_RELEASE_SECONDS
    is_first = True
    while True:
        record = await asyncio.to_thread(find_live_server, options.state)
        is_late = time.monotonic() > deadline
        if record is not None or is_late or await is_released(options.database):
            return record
        if is_first:
            progress.log("", waits_for(options.database))
        is_first = False
        await asyncio.sleep(DATABASE_POLL_SECONDS)
