"""Running the server: the application, uvicorn, a clean shutdown."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn

from shiftboss import __version__
from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.coordinator.deployment.presence import Presence
from shiftboss.coordinator.handoffs.spawn_checks import SpawnPolicy
from shiftboss.defaults import (
    OPERATOR_TOKEN_FILE,
)
from shiftboss.errors import ShiftbossError
from shiftboss.evidence.ci.credentials import TOKEN, credential_problems
from shiftboss.evidence.subprocess.proxy import EvidenceProxy
from shiftboss.evidence.survey.policy_file import default_policy_file, load_policy
from shiftboss.notifications.settings_source import SettingsSource
from shiftboss.protocol.deployment.sessions import CreateLoginRequest
from shiftboss.protocol.policy import Policy
from shiftboss.rules.access.actors import OPERATOR
from shiftboss.rules.claims.environment_variables import is_variable_allowed
from shiftboss.server.fast_path.serving import fast_serving
from shiftboss.server.http.app import App
from shiftboss.server.http.certificates import Certificates, certificates_at
from shiftboss.server.http.connection import Connection, Serving
from shiftboss.server.http.forwarded import Forwarding
from shiftboss.server.http.open_connections import (
    OpenConnections,
    always_accepting,
)
from shiftboss.server.http.rate_limits import RateLimits
from shiftboss.server.http.tls_connections import behind_tls
from shiftboss.server.interpreter import build_types, tune_interpreter
from shiftboss.server.listening import (
    address_of,
    allow_many_connections,
    listen,
    local_address_of,
    note_record,
    refuse_without_token,
)
from shiftboss.server.otlp import OtlpSink, otlp_sink
from shiftboss.server.reloading import (
    CertificateReload,
    Reload,
    Reloads,
    TokenReload,
    has_terminal,
)
from shiftboss.server.server_processes import ServingProcess
from shiftboss.server.settings import CannotStart, ServerSettings
from shiftboss.store.current_actor import CURRENT_ACTOR
from shiftboss.store.open_store import store_at
from shiftboss.system.state_folder import (
    ServerRecord,
    make_state_folder,
    operator_token,
    remove_server_file,
)
from shiftboss.tracker.beads import Beads

log = logging.getLogger(__name__)

# How long accepted requests may take to finish once the server is asked to stop.
GRACE_SECONDS = 10


class _Server(uvicorn.Server):
    """Ends the event streams when asked to stop; uvicorn would wait for them forever. A requested
    stop is no failure, so the signal is not raised again."""

    def __init__(
        self,
        config: uvicorn.Config,
        app: App,
        serving: Serving,
        reloads: Reloads,
        on_stopping: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._reloads = reloads
        self._has_terminal = has_terminal()
        self._app = app
        self._background = serving.background
        self._on_stopping = on_stopping

    def keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it beside the server."""
        self._kept = asyncio.get_running_loop().create_task(work)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        loop.add_signal_handler(signal.SIGHUP, self._on_hangup)
        yield
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(number)

    def _on_hangup(self) -> None:
        if self._has_terminal and not has_terminal():
            self.handle_exit(signal.SIGTERM, None)
        else:
            self._reloads.request()

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


def serve(
    settings: ServerSettings,
    on_listening: Callable[[str], None],
    reloads: Mapping[str, Reload] | None = None,
    on_login_link: Callable[[str], None] | None = None,
    login_swarm: str | None = None,
    process: ServingProcess | None = None,
) -> None:
    """Serve until a signal arrives. `on_listening` gets the address once it can be reached, then
    `on_login_link` a link by which the operator logs in to the page, which shows
    `login_swarm`. SIGHUP reads again what is `reloads`, and what the settings name."""
    forwarding = Forwarding(settings.behind_proxy, settings.public_url)
    refuse_without_token(settings)
    certificates = certificates_at(settings.tls_cert, settings.tls_key)
    allow_many_connections()
    make_state_folder(settings.state_folder)
    # Beside the database, where commands look for both.
    folder = make_state_folder(settings.database_folder or settings.state_folder)
    sockets = [listen(settings)] if process is None else [process.own, process.shared]
    host, port = sockets[0].getsockname()[:2]
    address = address_of(host, port, certificates)
    # Of several processes, the address of all: people are sent there, and to none of them alone.
    common_host, common_port = sockets[-1].getsockname()[:2]
    local_address = local_address_of(common_host, common_port, certificates)
    app = _app(settings, certificates, forwarding, address, local_address)
    if process is not None:
        app.started_at = process.started_at
    serving = _serving(settings, app)
    all_reloads = _reloads(settings, app, reloads or {})
    config = _config(settings, app, serving)
    tune_interpreter()
    record = ServerRecord(local_address, os.getpid(), app.started_at)
    # At once, so that no run relies on a server that is about to end. One of several does not
    # announce itself: the process that started it does.
    remove_record = partial(remove_server_file, folder, record) if process is None else _nothing
    server = _Server(config, app, serving, all_reloads, remove_record)

    def announce() -> None:
        if process is None:
            note_record(folder, record)
            on_listening(address)
        else:
            process.on_ready()
        if on_login_link is not None:
            server.keep(_tell_login_link(app, on_login_link, login_swarm))
        warn_about_credentials(app.coordinator.active_policy)
        log.info("serving %s, version %s, on %s", app.coordinator.store.name, __version__, address)

    def give_up(error: ShiftbossError) -> None:
        app.start_error = error
        server.should_exit = True

    app.coordinator.presence.on_outdated = give_up
    app.on_started = announce
    try:
        _run_until_stopped(server, app, sockets)
    finally:
        remove_record()
        log.info("stopped serving on %s", address)


def _run_until_stopped(server: _Server, app: App, sockets: list[socket.socket]) -> None:
    try:
        server.run(sockets=sockets)
    except SystemExit:
        # uvicorn exits like this when the application did not start. The application knows why.
        if app.start_error is None:
            raise
    if app.start_error is not None:
        raise app.start_error


def _nothing() -> None:
    """For a server that has no record of its own."""


async def _tell_login_link(app: App, tell: Callable[[str], None], swarm_id: str | None) -> None:
    """A server without its link is better than none."""
    CURRENT_ACTOR.set(OPERATOR)
    try:
        tell(
            (await app.coordinator.sessions.create_login(CreateLoginRequest(swarm_id=swarm_id))).url
        )
    except ShiftbossError as error:
        log.warning("there is no login link: %s", error.detail)


def _config(settings: ServerSettings, app: App, serving: Serving) -> uvicorn.Config:
    # It complains about streams that were cut off on purpose. The application logs its own errors.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    return uvicorn.Config(
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


def _app(
    settings: ServerSettings,
    certificates: Certificates | None,
    forwarding: Forwarding,
    address: str,
    local_address: str,
) -> App:
    folder = settings.state_folder
    try:
        evidence = EvidenceProxy(folder, _own_repo(), _key_file(settings))
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
        clock_skew_max_seconds=settings.clock_skew_max,
        retention_days=settings.retention_days,
        find_task=None if settings.beads is None else Beads(Path(settings.beads)).find,
        verifies=settings.verifies,
        policy_file=_policy_file(settings),
        spawning=SpawnPolicy(settings.spawning_is_open, _variables(settings.pass_environment)),
        notify=SettingsSource(folder, desktop=settings.desktop_notifications),
        state_folder=folder,
        spans=_spans(settings),
    )
    app = App(
        coordinator,
        settings.token,
        operator,
        RateLimits(settings.rate_limit),
        certificates,
        forwarding,
        needs_token=settings.requires_tokens,
    )
    app.monitor.evidence_starts = lambda: evidence.starts
    presence = coordinator.presence
    presence.address = settings.public_url or address
    coordinator.sessions.address = settings.public_url or local_address
    presence.facts |= {
        "operator_token": app.guard.tokens.operator_digest,
        "token": app.guard.tokens.shared_digest,
    }
    folders = {"database": settings.database_folder, "state folder": folder}
    coordinator.deployment.folders = {
        what: path for what, path in folders.items() if path is not None
    }
    return app


def _spans(settings: ServerSettings) -> OtlpSink | None:
    """Raises CannotTrace."""
    if settings.traces is False:
        return None
    return otlp_sink(os.environ, required=bool(settings.traces))


def _key_file(settings: ServerSettings) -> Path | None:
    if settings.key_file is None:
        return None
    path = Path(settings.key_file).resolve()
    if not path.parent.is_dir():
        raise CannotStart(
            f"there is no folder {path.parent} for the key file",
            field="key_file",
            hint="create it, or give the path of a file in an existing folder",
        )
    if not path.exists():
        log.warning("there is no key file %s: it gets a new key", path)
    return path


def _reloads(settings: ServerSettings, app: App, others: Mapping[str, Reload]) -> Reloads:
    """What SIGHUP reads again. Others append to it here."""
    shared: Path | list[str] = [] if settings.token is None else [settings.token]
    if settings.token_file is not None:
        shared = Path(settings.token_file)
    operator: Path | list[str] = settings.state_folder / OPERATOR_TOKEN_FILE
    if settings.operator_token is not None:
        operator = [settings.operator_token]
    reloads = Reloads()
    for name, reload in others.items():
        reloads.add(name, reload)
    reloads.add("tokens", TokenReload(app.guard.tokens.replace_given, shared, operator))
    reloads.add("policy", app.coordinator.policies.put_file)
    reloads.add("notifications", app.coordinator.notifications.channels.reload)
    reloads.add("record of this server", partial(_renew_presence, app.coordinator.presence))
    if app.certificates is not None:
        reloads.add("certificates", CertificateReload(app.certificates.reload_certificates))
    return reloads


async def _renew_presence(presence: Presence) -> Sequence[str]:
    """The other servers compare it."""
    await presence.renew_if_changed()
    return ()


def _serving(settings: ServerSettings, app: App) -> Serving:
    open_connections = OpenConnections(settings.limits, time.monotonic)
    app.monitor.open_connections = lambda: open_connections.count
    if settings.uses_fast_path:
        serving = fast_serving(app, open_connections, settings.database_folder, settings.cpu)
    else:
        connection = partial(Connection, open_connections=open_connections)
        serving = Serving(connection, (open_connections.watch,))
    serving = serving._replace(background=(*serving.background, build_types))
    if app.certificates is None:
        return serving
    secured = behind_tls(serving.connection, app.certificates, open_connections)
    return serving._replace(connection=secured)


def _variables(names: Sequence[str]) -> frozenset[str]:
    for name in names:
        if not is_variable_allowed(name):
            raise CannotStart(f"{name} can never be passed to commands", field="pass_environment")
    return frozenset(names)


def _policy_file(settings: ServerSettings) -> Path | None:
    """Raises InvalidPolicy, before anything is opened."""
    given = settings.policy
    path = default_policy_file(Path.cwd()) if given is None else Path(given).absolute()
    if path is not None:
        load_policy(path)
    return path


def warn_about_credentials(policy: Policy) -> None:
    """Without its token, the server cannot ask a forge, and tasks wait for CI forever. Said in any
    case, also if the log has errors only."""
    for problem in credential_problems(policy):
        repos = f"{'repo' if len(problem.repos) == 1 else 'repos'} {', '.join(problem.repos)}"
        effect = (
            "their CI cannot be asked" if problem.kind == TOKEN else "their webhooks are refused"
        )
        text = f"{problem.problem} ({repos}): {effect}; {problem.hint}"
        if log.isEnabledFor(logging.WARNING):
            log.warning("%s", text)
        else:
            print(f"warning: {text}", file=sys.stderr, flush=True)


def _own_repo() -> str | None:
    """The repository that the server was started in."""
    here = Path.cwd()
    return next((str(path) for path in (here, *here.parents) if (path / ".git").exists()), None)
