"""Empty a database after a test, so that the next test can use it.

Creating and dropping a database takes ten times as long as emptying one: PostgreSQL copies and
deletes some hundred files, and writes a checkpoint for each of both. A new connection has to read
what the tables are like, which takes five times as long as the rest, so one to each is kept.
"""

from __future__ import annotations

import json
import time
from typing import Any, LiteralString

import psycopg
from psycopg.sql import SQL, Composed, Identifier, Literal

from tests.waiting import PAUSE_SECONDS

# The connections that are kept while tests use the database.
APPLICATION = "shiftboss-tests-reset"
# A connection that its client has closed is gone after a moment.
CLOSING_SECONDS = 0.5

_CONNECTIONS: LiteralString = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""
_TABLES: LiteralString = """
SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
ORDER BY relname
"""
# Each change of the schema writes new rows with the number of its transaction.
_SCHEMA: LiteralString = """
SELECT md5(string_agg(version, ' ' ORDER BY version)) FROM (
    SELECT format('class %s %s', oid, xmin) AS version FROM pg_class WHERE oid >= 16384
    UNION ALL SELECT format('column %s %s %s', attrelid, attnum, xmin) FROM pg_attribute
        WHERE attrelid >= 16384
    UNION ALL SELECT format('default %s %s', oid, xmin) FROM pg_attrdef
    UNION ALL SELECT format('index %s %s', indexrelid, xmin) FROM pg_index
        WHERE indexrelid >= 16384
    UNION ALL SELECT format('constraint %s %s', oid, xmin) FROM pg_constraint WHERE oid >= 16384
    UNION ALL SELECT format('trigger %s %s', oid, xmin) FROM pg_trigger
    UNION ALL SELECT format('function %s %s', oid, xmin) FROM pg_proc WHERE oid >= 16384
    UNION ALL SELECT format('rule %s %s', oid, xmin) FROM pg_rewrite WHERE oid >= 16384
    UNION ALL SELECT format('schema %s %s', oid, xmin) FROM pg_namespace
    UNION ALL SELECT format('extension %s %s', oid, xmin) FROM pg_extension
    UNION ALL SELECT format('setting %s %s %s', setdatabase, setrole, xmin)
        FROM pg_db_role_setting
        WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
) AS versions
"""


class DatabaseReset:
    """Restores the contents of the database that it was made with, in copies of that database."""

    def __init__(self, template: psycopg.Connection) -> None:
        self._connections: dict[str, psycopg.Connection] = {}
        self._schema = _value(template, SQL(_SCHEMA))
        tables = [str(name) for (name,) in template.execute(_TABLES)]
        deletions = [SQL("DELETE FROM {}").format(Identifier(name)) for name in tables]
        contents = [_insertion(template, name) for name in tables]
        self._contents = SQL("; ").join(
            [
                # Without triggers and foreign keys, so in any order.
                SQL("BEGIN; SET LOCAL session_replication_role = replica"),
                *deletions,
                *(insertion for insertion in contents if insertion is not None),
                SQL("COMMIT"),
            ]
        )

    def restore(self, url: str) -> bool:
        """False if it cannot: the schema has changed, or somebody is still connected."""
        try:
            if url in self._connections:
                try:
                    return self._restore(self._connections[url])
                except psycopg.OperationalError:
                    self.disconnect(url)  # the test has restarted PostgreSQL
            self._connections[url] = psycopg.connect(
                url, autocommit=True, application_name=APPLICATION
            )
            return self._restore(self._connections[url])
        except psycopg.Error:
            return False

    def _restore(self, connection: psycopg.Connection) -> bool:
        if not _is_alone(connection) or _value(connection, SQL(_SCHEMA)) != self._schema:
            return False
        connection.execute(self._contents)
        return True

    def disconnect(self, url: str) -> None:
        """Before the database is dropped."""
        if url in self._connections:
            self._connections.pop(url).close()

    def close(self) -> None:
        for url in [*self._connections]:
            self.disconnect(url)


def _is_alone(connection: psycopg.Connection) -> bool:
    deadline = time.monotonic() + CLOSING_SECONDS
    while _value(connection, SQL(_CONNECTIONS)):
        if time.monotonic() > deadline:
            return False
        time.sleep(PAUSE_SECONDS)
    return True


def _insertion(connection: psycopg.Connection, table: str) -> Composed | None:
    name = Identifier(table)
    rows = _value(connection, SQL("SELECT json_agg(to_json(row)) FROM {} AS row").format(name))
    if rows is None:
        return None
    return SQL("INSERT INTO {} SELECT * FROM json_populate_recordset(NULL::{}, {})").format(
        name, name, Literal(json.dumps(rows))
    )


def _value(connection: psycopg.Connection, query: SQL | Composed) -> Any:
    row = connection.execute(query).fetchone()
    assert row is not None, "an aggregate has one row"
    return row[0]
