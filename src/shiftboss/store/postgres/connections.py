"""Connections to PostgreSQL: the address, the pool, and the migrations."""

from __future__ import annotations

import re
import select
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool

from shiftboss.errors import StoreUnavailable
from shiftboss.store.deadlines import DatabaseDeadlines
from shiftboss.store.postgres.hung_database import BoundedConnection
from shiftboss.store.postgres.schema import HOLD_SCHEMA, Migrations, migrate
from shiftboss.store.postgres.schema_address import make_schema, split_schema

BoundedPool = ConnectionPool[BoundedConnection]

CONNECT_SECONDS = 5
# How long a batch or a read waits for a connection. Longer than the pauses between the pool's
# attempts, so that a request succeeds if PostgreSQL has come back.
CONNECTION_WAIT_SECONDS = 3.0
RECONNECT_ATTEMPTS_SECONDS = 2.0
# A peer that is silent for this long is gone.
SILENCE_MS_MAX = 15_000
# How often a connection runs a statement before it prepares it.
PREPARE_THRESHOLD = 2

_DEFAULTS: dict[str, Any] = {
    "application_name": "shiftboss",
    "client_encoding": "UTF8",
    "connect_timeout": CONNECT_SECONDS,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": SILENCE_MS_MAX,
}

# How long the writer of many swarms waits for a lock. A use case that needs longer does not hold up
# the others: it is run again elsewhere, with more patience (`locked_swarms.py`).
# Other servers hold a swarm for the time of a batch, which is much shorter.
LOCK_SECONDS_IN_BATCH = 1.0

# An answer means that the commit is on disk, whatever the settings of the database. A server that
# hangs in a transaction must not lock its swarms forever, nor one that has disappeared.
_SETTINGS = f"""
SELECT set_config('synchronous_commit', 'on', false)
WHERE current_setting('synchronous_commit') = 'off';
SET tcp_keepalives_idle = 10;
SET tcp_keepalives_interval = 5;
SET tcp_keepalives_count = 3;
SET tcp_user_timeout = {SILENCE_MS_MAX};
"""


def _settings(deadlines: DatabaseDeadlines) -> bytes:
    statement_ms = round(deadlines.statement * 1000)
    lock_ms = round(min(deadlines.lock, LOCK_SECONDS_IN_BATCH) * 1000)
    return f"""{_SETTINGS}
SET statement_timeout = {statement_ms};
SET idle_in_transaction_session_timeout = {statement_ms};
SET lock_timeout = {lock_ms};
{HOLD_SCHEMA}""".encode()


def connection_parameters(url: str) -> dict[str, Any]:
    """The parameters of the address, with defaults for the others."""
    url, schema = split_schema(url)
    try:
        parameters = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise _unreadable() from None
    if schema is not None:
        options = f"-c search_path={schema}"
        parameters["options"] = f"{parameters.get('options') or ''} {options}".strip()
    # If the password contains a slash, its first half is parsed as the port.
    if not re.fullmatch(r"[0-9,]*", str(parameters.get("port") or "")):
        raise _unreadable()
    return _DEFAULTS | parameters


def _unreadable() -> StoreUnavailable:
    """Without the message of the driver, which may contain a part of the password."""
    return StoreUnavailable(
        "the address of the database is invalid",
        field="db",
        hint="use postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with special characters as %XX",
    )


def server_location(parameters: dict[str, Any]) -> str:
    """Where the server is, for error messages."""
    host = parameters.get("host") or parameters.get("hostaddr") or "the local socket"
    port = parameters.get("port")
    return f"{host}:{port}" if port else str(host)


def prepare_schema(parameters: dict[str, Any], migrations: Migrations) -> str:
    """Apply the migrations; the name of the schema. Raises psycopg.Error when the server cannot
    be reached, SchemaMismatch or IncompatibleServers."""
    with psycopg.connect(**parameters, autocommit=True) as connection:
        make_schema(connection)
        migrate(connection, migrations)
        row = connection.execute("SELECT current_schema()").fetchone()
    assert row is not None, "SELECT without FROM returns one row"
    return str(row[0])


def open_pool(
    parameters: dict[str, Any],
    size: int,
    size_max: int,
    deadlines: DatabaseDeadlines,
    check: Callable[[BoundedConnection], None],
) -> BoundedPool:
    """`check` raises for a connection to a database that must not be used."""
    settings = _settings(deadlines)

    def configure(connection: BoundedConnection) -> None:
        connection.answer_seconds = deadlines.answer
        connection.execute(settings)
        check(connection)

    pool = ConnectionPool(
        connection_class=BoundedConnection,
        kwargs=parameters | {"autocommit": True, "prepare_threshold": PREPARE_THRESHOLD},
        min_size=size,
        max_size=size_max,
        configure=configure,
        timeout=CONNECTION_WAIT_SECONDS,
        reconnect_timeout=RECONNECT_ATTEMPTS_SECONDS,
        name="shiftboss",
        open=False,
    )
    pool.open()
    return pool


def take_connection(pool: BoundedPool, seconds: float) -> BoundedConnection:
    """A working connection. Connections that a restart of PostgreSQL cut are dropped. Waits for a
    free one for so many seconds."""
    while not _works(connection := pool.getconn(seconds)):
        connection.close()
        pool.putconn(connection)
    return connection


def _works(connection: psycopg.Connection) -> bool:
    """PostgreSQL sends nothing on an idle connection except when it closes it: only check then."""
    poll = select.poll()
    try:
        poll.register(connection.fileno(), select.POLLIN)
        if poll.poll(0):
            ConnectionPool.check_connection(connection)
    except psycopg.Error:
        return False
    return True
