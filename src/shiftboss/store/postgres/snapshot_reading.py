"""Reading a snapshot of a PostgreSQL database, without a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import psycopg

from shiftboss.errors import StoreUnavailable
from shiftboss.store.port import Transaction
from shiftboss.store.postgres.connections import connection_parameters, server_location
from shiftboss.store.postgres.hung_database import BoundedConnection
from shiftboss.store.postgres.schema import SERVER_CONNECTIONS
from shiftboss.store.postgres.session import PostgresSession
from shiftboss.store.queries import load_migrations
from shiftboss.store.snapshot_reading import SnapshotReading, check_version
from shiftboss.store.transaction import SqlTransaction

T = TypeVar("T")


def read_postgres_snapshot(url: str, work: Callable[[Transaction], T]) -> SnapshotReading[T]:
    parameters = connection_parameters(url)
    location = server_location(parameters)
    try:
        with BoundedConnection.connect(
            **parameters | {"application_name": "shiftboss-fsck"}, autocommit=True
        ) as connection:
            row = connection.execute(SERVER_CONNECTIONS.encode(), {"leading": None}).fetchone()
            is_in_use = row is not None and row[0] > 0
            check_version(_version(connection), load_migrations("postgres")[-1][0], location)
            session = PostgresSession(connection, "", "")
            with session.snapshot():
                return SnapshotReading(work(SqlTransaction(session)), [], is_in_use)
    except psycopg.Error as error:
        raise StoreUnavailable(
            f"cannot read PostgreSQL at {location}: {error}",
            hint="is it running, and is --db right?",
        ) from error


def _version(connection: psycopg.Connection) -> int:
    if connection.execute("SELECT to_regclass('migrations')").fetchone() == (None,):
        return 0
    row = connection.execute("SELECT max(number) FROM migrations").fetchone()
    return int(row[0]) if row is not None and row[0] is not None else 0
