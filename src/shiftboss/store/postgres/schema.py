"""The schema: numbered migrations, each applied once, by one server at a time."""

from __future__ import annotations

import psycopg

from shiftboss.store.queries import load_migrations

# Any number that nobody else takes on the same database.
MIGRATION_LOCK = 0x5348_4946_5442_4F53


def migrate(connection: psycopg.Connection) -> None:
    """Bring the schema up to date, all or nothing. A server that starts meanwhile waits."""
    execute = connection.execute
    with connection.transaction():
        execute("SELECT pg_advisory_xact_lock(%s)", [MIGRATION_LOCK])
        if execute("SELECT to_regclass('migrations')").fetchone() == (None,):
            execute("CREATE TABLE migrations (number integer PRIMARY KEY)")
        applied = {number for (number,) in execute("SELECT number FROM migrations")}
        for number, text in load_migrations("postgres"):
            if number not in applied:
                execute(text.encode())
                execute("INSERT INTO migrations (number) VALUES (%s)", [number])
