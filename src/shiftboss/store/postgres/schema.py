"""The schema: numbered migrations, each applied once, by one server at a time."""

from __future__ import annotations

import psycopg

from shiftboss.store.queries import check_schema_version, load_migrations

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
        migrations = load_migrations("postgres")
        check_schema_version(max(applied, default=0), migrations)
        for number, text in migrations:
            if number not in applied:
                execute(text.encode())
                execute("INSERT INTO migrations (number) VALUES (%s)", [number])
