"""Running the server: the listening socket, uvicorn, a clean end."""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence, Set
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import uvicorn

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.coordinator.handoffs.spawn_checks import Spawning
from shiftboss.errors import ShiftbossError
from shiftboss.evidence.subprocess.proxy import EvidenceProxy
from shiftboss.evidence.survey.policy_file import default_policy_file, load_policy
from shiftboss.protocol.policy import Policy
from shiftboss.rules.claims.variables import may_be_passed
from shiftboss.server.fast_path.connection import Connection
from shiftboss.server.fast_path.core_affinity import nearest_core, stay_on_one_core, usable_cores
from shiftboss.server.fast_path.head_cache import HeadCache
from shiftboss.server.http.app import App
from shiftboss.server.http.guard import is_loopback
from shiftboss.store.opening import DEFAULT_DATABASE, store_at
from shiftboss.system.private_files import operator_token
from shiftboss.tracker.beads import Beads

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 7432
BACKLOG = 2048
# How long requests that were accepted may take to finish once the server is asked to stop.
GRACE_SECONDS = 10
SWITCH_SECONDS = 0.05


class ServerSettings(NamedTuple):
    database: str | Path
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    token: str | None = None
    retention_days: int = 30
    beads: str | Path | None = None
    # Where keys, mirrors and checkouts lie; else beside the database file.
    state: str | Path | None = None
    operator_token: str | None = None
    verifies: bool = True
    # The policy file; else the one of the folder that the server is started in.
    policy: str | Path | None = None
    # Who may spawn tasks with a contract, and which variables a contract may show to its commands.
    spawning: Literal["everybody", "operator"] | None = None
    pass_environment: Sequence[str] = ()

    @property
    def spawning_is_open(self) -> bool:
        """Where others can reach the server, whoever spawns would run commands on it."""
        if self.spawning is None:
            return self.token is None and is_loopback(self.host)
        return self.spawning == "everybody"

    @property
    def database_folder(self) -> Path | None:
        """None: the database is no file."""
        is_file = "://" not in str(self.database)
        return Path(self.database).resolve().parent if is_file else None

    @property
    def state_folder(self) -> Path:
        if self.state is not None:
            return Path(self.state).resolve()
        return self.database_folder or DEFAULT_DATABASE.parent.resolve()


Stay = Callable[[], Coroutine[None, None, None]]


class CannotStart(ShiftbossError):
    code = "cannot_start"


class _Server(uvicorn.Server):
    """Ends the event streams when asked to stop; uvicorn would wait for them for ever. A stop that
    was asked for is a good end, so the signal is not raised again."""

    def __init__(self, config: uvicorn.Config, app: App, on_one_core: Stay) -> None:
        super().__init__(config)
        self._app = app
        self._on_one_core = on_one_core

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)

    async def main_loop(self) -> None:
        on_one_core = asyncio.create_task(self._on_one_core())
        try:
            await super().main_loop()
        finally:
            on_one_core.cancel()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.coordinator.hub.close()
        await super().shutdown(sockets)


def serve(settings: ServerSettings, on_listening: Callable[[str], None]) -> None:
    """Serve until a signal comes. `on_listening` is told the address once it can be reached."""
    if settings.token is None and not is_loopback(settings.host):
        raise CannotStart(
            f"{settings.host} can be reached from other machines, so a token is needed",
            field="host",
            hint="set SHIFTBOSS_TOKEN or --token-file, or serve on 127.0.0.1",
        )
    _allow_many_connections()
    listening = _listen(settings.host, settings.port)
    cores = usable_cores()
    app = _app(settings, cores)
    config = uvicorn.Config(
        app,
        http=partial(Connection, app.calls, app.guard, HeadCache()),  # type: ignore[arg-type]
        lifespan="on",
        proxy_headers=False,
        ws="none",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    # Its complaints about streams that were cut off on purpose; our own errors are logged by us.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    _collect_garbage_rarely()
    # The writing thread lets go of the interpreter at every statement; taking turns more often than
    # that costs a tenth of the reports per second.
    sys.setswitchinterval(SWITCH_SECONDS)
    best = nearest_core(settings.database_folder, cores) if settings.database_folder else None
    server = _Server(config, app, partial(stay_on_one_core, cores, best))
    host, port = listening.getsockname()[:2]
    app.on_started = lambda: on_listening(f"http://{_in_url(host)}:{port}")
    try:
        server.run(sockets=[listening])
    except SystemExit:
        # uvicorn's way out when the application did not start; ours knows why.
        if app.start_error is None:
            raise
    if app.start_error is not None:
        raise app.start_error


def _app(settings: ServerSettings, cores: Set[int]) -> App:
    folder = settings.state_folder
    try:
        evidence = EvidenceProxy(folder, _own_repo(), cores)
        operator = settings.operator_token or operator_token(folder)
    except OSError as error:
        raise CannotStart(
            f"cannot use the folder {folder}: {error.strerror}",
            field="state",
            hint="choose another --state or --db",
        ) from error
    coordinator = Coordinator(
        store_at(settings.database),
        evidence,
        retention_days=settings.retention_days,
        find_task=None if settings.beads is None else Beads(Path(settings.beads), cores=cores).find,
        verifies=settings.verifies,
        policy=_policy(settings),
        spawning=Spawning(settings.spawning_is_open, _variables(settings.pass_environment)),
    )
    return App(coordinator, settings.token, operator)


def _variables(names: Sequence[str]) -> frozenset[str]:
    for name in names:
        if not may_be_passed(name):
            raise CannotStart(
                f"{name} is not passed to commands, whoever allows it", field="pass_environment"
            )
    return frozenset(names)


def _policy(settings: ServerSettings) -> Policy | None:
    named = settings.policy
    path = Path(named) if named is not None else default_policy_file(Path.cwd())
    return None if path is None else load_policy(path)


def _collect_garbage_rarely() -> None:
    """Requests make no cycles; what was imported lives for ever."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def _own_repo() -> str | None:
    """The repository that the server was started in."""
    here = Path.cwd()
    return next((str(one) for one in (here, *here.parents) if (one / ".git").exists()), None)


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, proto)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as error:
        raise CannotStart(
            f"cannot listen on {host}:{port}: {error.strerror}",
            field="port",
            hint="another server may have it; choose another --port",
        ) from error
    listening.listen(BACKLOG)
    listening.set_inheritable(False)
    return listening


def _allow_many_connections() -> None:
    """A thousand event streams need more open files than many systems start with."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
