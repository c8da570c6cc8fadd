"""Running the server: settings, the listening socket, uvicorn, a clean shutdown."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import math
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import uvicorn

from shiftboss import __version__
from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.coordinator.handoffs.spawn_checks import SpawnPolicy
from shiftboss.defaults import CONNECTIONS_MAX, HOST, PORT, REQUESTS_PER_SECOND
from shiftboss.errors import ShiftbossError
from shiftboss.evidence.subprocess.proxy import EvidenceProxy
from shiftboss.evidence.survey.policy_file import default_policy_file, load_policy
from shiftboss.protocol.policy import Policy
from shiftboss.rules.claims.environment_variables import is_variable_allowed
from shiftboss.server.fast_path.serving import fast_serving
from shiftboss.server.http.accepting import always_accepting
from shiftboss.server.http.app import App
from shiftboss.server.http.connection import Connection, Serving
from shiftboss.server.http.open_connections import ConnectionLimits, OpenConnections
from shiftboss.server.http.rate_limits import RateLimits
from shiftboss.store.deadlines import DEFAULT_DEADLINES, DatabaseDeadlines
from shiftboss.store.opening import DEFAULT_DATABASE, store_at
from shiftboss.system.loopback import is_loopback
from shiftboss.system.state_folder import (
    SERVER_FILE,
    ServerRecord,
    make_state_folder,
    operator_token,
    remove_server_file,
    write_server_file,
)
from shiftboss.tracker.beads import Beads

log = logging.getLogger(__name__)

BACKLOG = 2048
# How long accepted requests may take to finish once the server is asked to stop.
GRACE_SECONDS = 10
# The writer thread releases the interpreter at every statement. Switching threads more often than
# that costs a tenth of the reports per second.
SWITCH_SECONDS = 0.05


class ServerSettings(NamedTuple):
    database: str | Path
    host: str = HOST
    port: int = PORT
    token: str | None = None
    # Nobody is admitted without a token, even if there is none that all share.
    requires_tokens: bool = False
    retention_days: int = 30
    beads: str | Path | None = None
    # The folder of keys, mirrors and checkouts; None: the one of the database file.
    state: str | Path | None = None
    operator_token: str | None = None
    verifies: bool = True
    # The policy file; None: the one of the folder that the server is started in.
    policy: str | Path | None = None
    # Who may spawn tasks with a contract, and which variables a contract may pass to its commands.
    spawning: Literal["everybody", "operator"] | None = None
    pass_environment: Sequence[str] = ()
    # Another program may use the port: then take any free one.
    any_port_if_taken: bool = False
    # How long to wait for PostgreSQL, in seconds.
    db_statement_seconds: float = DEFAULT_DEADLINES.statement
    db_lock_seconds: float = DEFAULT_DEADLINES.lock
    db_lead_seconds: float = DEFAULT_DEADLINES.lead
    # Requests per second of one client; 0: no limit.
    rate_limit: int = REQUESTS_PER_SECOND
    connections_max: int = CONNECTIONS_MAX
    # For tests: the seconds of the phases of a connection.
    phase_seconds: Mapping[str, float] | None = None
    # For tests. The replies are the same with and without the fast path, which is on by default.
    fast_path: bool | None = None

    @property
    def spawning_is_open(self) -> bool:
        """By default only where no other machine can reach the server, and nobody has set a token
        for the operator: contracts run commands."""
        if self.spawning is None:
            has_token = self.token is not None or self.operator_token is not None
            return not (has_token or self.requires_tokens) and is_loopback(self.host)
        return self.spawning == "everybody"

    @property
    def uses_fast_path(self) -> bool:
        if self.fast_path is None:
            return os.environ.get("SHIFTBOSS_FAST_PATH") != "0"
        return self.fast_path

    @property
    def database_deadlines(self) -> DatabaseDeadlines:
        return DatabaseDeadlines(
            self.db_statement_seconds, self.db_lock_seconds, self.db_lead_seconds
        )

    @property
    def limits(self) -> ConnectionLimits:
        return ConnectionLimits(self.connections_max, **(self.phase_seconds or {}))

    @property
    def database_folder(self) -> Path | None:
        """None when the database is not a file."""
        is_file = "://" not in str(self.database)
        return Path(self.database).resolve().parent if is_file else None

    @property
    def state_folder(self) -> Path:
        if self.state is not None:
            return Path(self.state).resolve()
        return self.database_folder or DEFAULT_DATABASE.parent.resolve()


class CannotStart(ShiftbossError):
    code = "cannot_start"


class _Server(uvicorn.Server):
    """Ends the event streams when asked to stop; uvicorn would wait for them for ever. A requested
    stop is no failure, so the signal is not raised again."""

    def __init__(
        self, config: uvicorn.Config, app: App, serving: Serving, on_stopping: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._app = app
        self._background = serving.background
        self._on_stopping = on_stopping

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)

    async def main_loop(self) -> None:
        background = [asyncio.create_task(run()) for run in self._background]
        try:
            await super().main_loop()
        finally:
            for task in background:
                task.cancel()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_stopping()
        self._app.coordinator.hub.close()
        await super().shutdown(sockets)


def serve(settings: ServerSettings, on_listening: Callable[[str], None]) -> None:
    """Serve until a signal arrives. `on_listening` gets the address once it can be reached."""
    if settings.token is None and not settings.requires_tokens and not is_loopback(settings.host):
        raise CannotStart(
            f"{settings.host} can be reached from other machines, so a token is needed",
            field="host",
            hint="add --require-tokens and give everybody a token with `shiftboss token create`; "
            "or set SHIFTBOSS_TOKEN or --token-file to one that all share; or serve on 127.0.0.1",
        )
    _allow_many_connections()
    make_state_folder(settings.state_folder)
    # Beside the database, where commands look for both.
    folder = make_state_folder(settings.database_folder or settings.state_folder)
    listening = _listen(settings)
    app = _app(settings)
    serving = _serving(settings, app)
    config = uvicorn.Config(
        app,
        http=always_accepting(serving.connection),  # type: ignore[arg-type]
        lifespan="on",
        proxy_headers=False,
        ws="none",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_keep_alive=math.ceil(settings.limits.idle_seconds),
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    # It complains about streams that were cut off on purpose. The application logs its own errors.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    _collect_garbage_rarely()
    sys.setswitchinterval(SWITCH_SECONDS)
    host, port = listening.getsockname()[:2]
    address = _address(host, port)
    record = ServerRecord(_local_address(host, port), os.getpid(), app.started_at)
    # At once, so that no run relies on a server that is about to end.
    server = _Server(config, app, serving, partial(remove_server_file, folder, record))

    def announce() -> None:
        try:
            write_server_file(folder, record)
        except OSError as error:  # a full disk must not keep the server from starting
            log.warning("cannot write %s: %s", folder / SERVER_FILE, error.strerror)
        on_listening(address)
        log.info("serving %s, version %s, on %s", app.coordinator.store.name, __version__, address)

    app.on_started = announce
    try:
        server.run(sockets=[listening])
    except SystemExit:
        # uvicorn exits like this when the application did not start. The application knows why.
        if app.start_error is None:
            raise
    finally:
        remove_server_file(folder, record)
        log.info("stopped serving on %s", address)
    if app.start_error is not None:
        raise app.start_error


def _app(settings: ServerSettings) -> App:
    folder = settings.state_folder
    try:
        evidence = EvidenceProxy(folder, _own_repo())
        operator = settings.operator_token or operator_token(folder)
    except OSError as error:
        raise CannotStart(
            f"cannot use the folder {folder}: {error.strerror}",
            field="state",
            hint="choose another --state or --db",
        ) from error
    coordinator = Coordinator(
        store_at(
            settings.database,
            cache_rows=settings.uses_fast_path,
            deadlines=settings.database_deadlines,
        ),
        evidence,
        retention_days=settings.retention_days,
        find_task=None if settings.beads is None else Beads(Path(settings.beads)).find,
        verifies=settings.verifies,
        policy=_policy(settings),
        spawning=SpawnPolicy(settings.spawning_is_open, _variables(settings.pass_environment)),
    )
    return App(
        coordinator,
        settings.token,
        operator,
        RateLimits(settings.rate_limit),
        needs_token=settings.requires_tokens,
    )


def _serving(settings: ServerSettings, app: App) -> Serving:
    open_connections = OpenConnections(settings.limits, time.monotonic)
    if settings.uses_fast_path:
        return fast_serving(app, open_connections, settings.database_folder)
    return Serving(
        partial(Connection, open_connections=open_connections), (open_connections.watch,)
    )


def _variables(names: Sequence[str]) -> frozenset[str]:
    for name in names:
        if not is_variable_allowed(name):
            raise CannotStart(f"{name} can never be passed to commands", field="pass_environment")
    return frozenset(names)


def _policy(settings: ServerSettings) -> Policy | None:
    given = settings.policy
    path = default_policy_file(Path.cwd()) if given is None else Path(given)
    return None if path is None else load_policy(path)


def _collect_garbage_rarely() -> None:
    """Requests create no reference cycles, and imported modules are never freed."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def _own_repo() -> str | None:
    """The repository that the server was started in."""
    here = Path.cwd()
    return next((str(path) for path in (here, *here.parents) if (path / ".git").exists()), None)


def _address(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _local_address(host: str, port: int) -> str:
    """For commands on this machine: nothing is sent to the address that means all addresses."""
    return _address({"0.0.0.0": HOST, "::": "::1"}.get(host, host), port)  # noqa: S104


def _listen(settings: ServerSettings) -> socket.socket:
    host, port = settings.host, settings.port
    try:
        try:
            listening = _bind(host, port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or not settings.any_port_if_taken:
                raise
            listening = _bind(host, 0)
    except OSError as error:
        raise CannotStart(
            f"cannot listen on {host}:{port}: {error.strerror}",
            field="port",
            hint="another program may use it; choose another --port",
        ) from error
    listening.listen(BACKLOG)
    listening.set_inheritable(False)
    return listening


def _bind(host: str, port: int) -> socket.socket:
    family, kind, proto, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listening = socket.socket(family, kind, proto)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
    except OSError:
        listening.close()
        raise
    return listening


def _allow_many_connections() -> None:
    """A thousand event streams need more open files than many systems allow at first."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
