"""shiftboss serve: runs the server."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from shiftboss.cli.commands.server.serve_options import (
    DEFAULT_DB,
    AddressAsJson,
    AnyPortIfTaken,
    BeadsFolder,
    BehindProxy,
    ClockSkewMax,
    ConnectionsMax,
    CpuChoice,
    CpuOption,
    Db,
    DesktopNotifications,
    EndsWithInput,
    Host,
    KeyFileOption,
    LeadSeconds,
    LockSeconds,
    PassEnvironment,
    PolicyFile,
    Port,
    Processes,
    PublicUrl,
    RateLimit,
    RequireTokens,
    RetentionDays,
    Schema,
    SecretsFromInput,
    ServerTokenFile,
    SpawningBy,
    State,
    StatementSeconds,
    TlsCert,
    TlsKey,
    Traces,
    Verifies,
)
from shiftboss.cli.common.log_options import (
    AccessLogged,
    AuditFile,
    Format,
    Level,
    LogFile,
    LogFormat,
    LogLevel,
)
from shiftboss.cli.common.output import print_line, printable
from shiftboss.cli.common.tokens import (
    ServerSecrets,
    operator_token_from_environment,
    read_secrets,
    read_server_token,
)
from shiftboss.defaults import (
    CLOCK_SKEW_MAX_SECONDS,
    CONNECTIONS_MAX,
    DATABASE_FILE,
    HOST,
    OPERATOR_TOKEN_FILE,
    PORT,
    REQUESTS_PER_SECOND,
    STATE_FOLDER,
    TOKEN_VARIABLE,
)
from shiftboss.store.deadlines import DEFAULT_DEADLINES
from shiftboss.system.loopback import is_loopback

if TYPE_CHECKING:
    from collections.abc import Callable

    from shiftboss.server.server_processes import ServingProcess
    from shiftboss.server.settings import ServerSettings
    from shiftboss.system.logs import LogSettings


def serve(
    host: Host = HOST,
    port: Port = PORT,
    db: Db = DEFAULT_DB,
    schema: Schema = None,
    workers: Processes = 1,
    state: State = None,
    token_file: ServerTokenFile = None,
    require_tokens: RequireTokens = False,
    key_file: KeyFileOption = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    public_url: PublicUrl = None,
    behind_proxy: BehindProxy = None,
    verifier: Verifies = True,
    policy: PolicyFile = None,
    retention_days: RetentionDays = 30,
    beads: BeadsFolder = None,
    spawning: SpawningBy = None,
    pass_environment: PassEnvironment = None,
    db_statement_seconds: StatementSeconds = DEFAULT_DEADLINES.statement,
    db_lock_seconds: LockSeconds = DEFAULT_DEADLINES.lock,
    db_lead_seconds: LeadSeconds = DEFAULT_DEADLINES.lead,
    clock_skew_max: ClockSkewMax = CLOCK_SKEW_MAX_SECONDS,
    rate_limit: RateLimit = REQUESTS_PER_SECOND,
    connections_max: ConnectionsMax = CONNECTIONS_MAX,
    cpu: CpuOption = CpuChoice.AUTO,
    log_level: Level = LogLevel.WARNING,
    log_format: Format = LogFormat.TEXT,
    log_file: LogFile = None,
    audit_log: AuditFile = None,
    access_log: AccessLogged = False,
    traces: Traces = None,
    as_json: AddressAsJson = False,
    secrets_from_input: SecretsFromInput = False,
    ends_with_input: EndsWithInput = False,
    any_port_if_taken: AnyPortIfTaken = False,
    desktop_notifications: DesktopNotifications = False,
) -> None:
    """Run the server until Ctrl-C.

    It prints its address when it is ready.

    \b
    Example, reachable from other machines:
      shiftboss serve --host 0.0.0.0 --token-file token
    """
    from shiftboss.system.private_environment import hide_secrets

    hide_secrets()
    secrets = _secrets_from_input() if secrets_from_input else None
    token = read_server_token(token_file)
    operator_token = secrets.operator_token if secrets else operator_token_from_environment()
    from shiftboss.server.settings import ServerSettings
    from shiftboss.store.open_store import in_schema
    from shiftboss.system.logs import LogSettings

    log_settings = LogSettings(log_level.value, log_format.value, log_file, audit_log, access_log)
    settings = ServerSettings(
        database=in_schema((secrets and secrets.database) or db, schema),
        host=host,
        port=port,
        token=token,
        token_file=token_file,
        requires_tokens=require_tokens,
        retention_days=retention_days,
        beads=beads,
        state=state,
        operator_token=operator_token,
        key_file=key_file,
        verifies=verifier,
        policy=policy,
        spawning=None if spawning is None else spawning.value,
        pass_environment=_names(pass_environment or []),
        db_statement_seconds=db_statement_seconds,
        db_lock_seconds=db_lock_seconds,
        db_lead_seconds=db_lead_seconds,
        clock_skew_max=clock_skew_max,
        rate_limit=rate_limit,
        connections_max=connections_max,
        cpu="all" if cpu is CpuChoice.ALL else "auto",
        any_port_if_taken=any_port_if_taken,
        desktop_notifications=desktop_notifications,
        traces=traces,
        tls_cert=tls_cert,
        tls_key=tls_key,
        public_url=public_url,
        behind_proxy=_names(behind_proxy or []),
    )
    if token is not None and token_file is None and is_loopback(host):
        _tell_of_inherited_token()
    if ends_with_input:
        threading.Thread(target=_end_with_input, daemon=True).start()
    _run(settings, workers, log_settings, as_json=as_json)


def _run(
    settings: ServerSettings, processes: int, log_settings: LogSettings, *, as_json: bool
) -> None:
    from shiftboss.server.reloading import LogReload
    from shiftboss.server.run import serve as run
    from shiftboss.system.logs import start_logs

    announce = _announce_json if as_json else partial(_announce, settings)
    process = None
    if processes > 1:
        process = _one_of_several(settings, processes, announce, log_settings)
        log_settings = log_settings._replace(process=process.number)
    log_reload = LogReload(start_logs(log_settings), settings.state_folder, log_settings.level)
    # A journal or a file is read by others: the link is for the person at the terminal.
    shows_link = not as_json and sys.stdout.isatty() and (process is None or process.number == 1)
    on_login_link = _show_link if shows_link else None
    run(settings, announce, {"log level": log_reload}, on_login_link, process=process)


def _one_of_several(
    settings: ServerSettings,
    count: int,
    announce: Callable[[str], None],
    log_settings: LogSettings,
) -> ServingProcess:
    """A process that starts others has no thread for its log."""
    from shiftboss.server.server_processes import one_of_several
    from shiftboss.system.logs import start_plain_logs, stop_plain_logs

    start_plain_logs(log_settings)
    process = one_of_several(settings, count, announce)
    stop_plain_logs()
    return process


def _tell_of_inherited_token() -> None:
    """A shell may have the variable for its clients, and no token is needed here. To ignore it
    would open a server that relies on it, for example behind a proxy."""
    without = shlex.join(["env", "-u", TOKEN_VARIABLE, "shiftboss", *sys.argv[1:]])
    print(
        f"{TOKEN_VARIABLE} is set: this server requires that token of every client. To serve "
        f"without a token: {printable(without)}",
        file=sys.stderr,
        flush=True,
    )


def _secrets_from_input() -> ServerSecrets:
    """The run sends them once this process is closed to others."""
    from shiftboss.system.private_environment import replace_environment

    print(json.dumps({"hidden": True}), flush=True)
    secrets = read_secrets(sys.stdin.fileno())
    replace_environment(secrets.environment)
    return secrets


def _end_with_input() -> None:
    """The process that started the server holds the other end: when it dies, the server stops."""
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _names(values: list[str]) -> list[str]:
    return [name for value in values for name in value.replace(",", " ").split()]


def _announce(settings: ServerSettings, address: str) -> None:
    print_line(f"listening on {address}; stop with Ctrl-C")
    if not sys.stdout.isatty():
        print_line(f"Page: {_page_command(settings, address)}")


def _page_command(settings: ServerSettings, address: str) -> str:
    """Works as printed in the folder of the server, where commands look in its state folder."""
    from shiftboss.rules.tasks.waiting import HERE, CommandPlace

    usual, state = Path(STATE_FOLDER).resolve(), settings.state_folder
    if settings.database_folder is None:
        place = HERE if state == usual else CommandPlace(server=address)
    else:
        file = Path(settings.database).resolve()
        place = HERE if file == usual / DATABASE_FILE else CommandPlace(database=str(file))
    command = "shiftboss open"
    finds_token = state == (settings.database_folder or usual)
    if not finds_token and settings.operator_token is None:
        command += f" --operator-token-file {shlex.quote(str(state / OPERATOR_TOKEN_FILE))}"
    return place.render(command)


def _show_link(url: str) -> None:
    print_line(f"Page: {url}")


def _announce_json(address: str) -> None:
    print(json.dumps({"address": address}), flush=True)
