"""The settings of a server, and the error of one that cannot start with them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from shiftboss.defaults import (
    CLOCK_SKEW_MAX_SECONDS,
    CONNECTIONS_MAX,
    HOST,
    PORT,
    REQUESTS_PER_SECOND,
)
from shiftboss.errors import ShiftbossError
from shiftboss.server.http.open_connections import (
    ConnectionLimits,
)
from shiftboss.store.deadlines import DEFAULT_DEADLINES, DatabaseDeadlines
from shiftboss.store.open_store import DEFAULT_DATABASE
from shiftboss.system.loopback import is_loopback

# All threads on one core where that pays, or wherever the system puts them.
CpuUse = Literal["auto", "all"]


class ServerSettings(NamedTuple):
    database: str | Path
    host: str = HOST
    port: int = PORT
    token: str | None = None
    # The file that the token is from: read again on SIGHUP, and while it has several lines, each of
    # them is a token.
    token_file: str | Path | None = None
    # Nobody is admitted without a token, even if there is none that all share.
    requires_tokens: bool = False
    retention_days: int = 30
    beads: str | Path | None = None
    # The folder of keys, mirrors and checkouts; None: the one of the database file.
    state: str | Path | None = None
    operator_token: str | None = None
    # The file of the signing key, which several servers may share; None: that of the state folder.
    key_file: str | Path | None = None
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
    # How far the clocks of this machine and of PostgreSQL may be apart, in seconds; 0: any.
    clock_skew_max: float = CLOCK_SKEW_MAX_SECONDS
    # Requests per second of one client; 0: no limit.
    rate_limit: int = REQUESTS_PER_SECOND
    connections_max: int = CONNECTIONS_MAX
    cpu: CpuUse = "auto"
    # The PEM files of TLS; None: plain HTTP.
    tls_cert: str | Path | None = None
    tls_key: str | Path | None = None
    # Where clients reach the server, and the proxies whose X-Forwarded headers are believed.
    public_url: str | None = None
    behind_proxy: Sequence[str] = ()
    # Notify the desktop that the server was started from, if there are no settings for that.
    desktop_notifications: bool = False
    # Export traces; None: if the variables of OpenTelemetry name a collector.
    traces: bool | None = None
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
