"""Whether the tables of a SQLite backup are those of a store.

A backup may come from anywhere. A trigger in it would change rows behind the rules, and a view in
the place of a table can take for ever to read.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from shiftboss.store.backups.report import NotABackup
from shiftboss.store.queries import check_schema_version, load_migrations

# Tables and indexes by kind, name and table; columns by table, name, type and whether computed.
_PARTS = """
SELECT type, name, tbl_name, '' FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
UNION ALL
SELECT s.name, c.name, c.type, c.hidden FROM sqlite_schema AS s, pragma_table_xinfo(s.name) AS c
WHERE s.type = 'table' AND s.sql LIKE 'CREATE TABLE%'
"""


def check_schema(file: Path, connection: sqlite3.Connection, version: int) -> None:
    """Compare with what the migrations make. Their text is not compared: versions of SQLite write
    it differently. Raises NotABackup, and StoreUnavailable for a later version."""
    migrations = load_migrations("sqlite")
    check_schema_version(version, migrations)
    with closing(sqlite3.connect(":memory:")) as made:
        for number, text in migrations:
            if number <= version:
                made.executescript(text)
        expected = _parts(made)
    odd = sorted(_parts(connection) ^ expected)
    if odd:
        kind, name = odd[0][:2]
        raise NotABackup(
            f"{file} is not a backup of a SQLite store: its schema is not that of version "
            f"{version} ({kind} {name})",
            field="file",
        )


def _parts(connection: sqlite3.Connection) -> set[tuple[str, ...]]:
    return {tuple(map(str, row)) for row in connection.execute(_PARTS)}
