"""Saving what can still be read of a damaged SQLite file, table by table.

A copy of the whole file ends at the first rotten page. Here each table is read from its beginning
and from its end, as far as that goes: a rotten page costs its rows, and not everything.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from shiftboss.errors import StoreDamaged
from shiftboss.store.queries import load_migrations


def salvage(source: sqlite3.Connection, file: Path) -> list[str]:
    """Write what can be read to the empty `file`; the tables of which rows are missing."""
    version = _schema_version(source)
    with closing(sqlite3.connect(file, isolation_level=None)) as target:
        target.execute("PRAGMA foreign_keys = OFF")
        _create_schema(target, version)
        target.execute("BEGIN")
        incomplete = {name for name in _tables(target) if not _copy(source, target, name)}
        incomplete |= _remove_orphans(target)
        target.execute("COMMIT")
    return sorted(incomplete)


def _schema_version(source: sqlite3.Connection) -> int:
    try:
        (version,) = source.execute("PRAGMA user_version").fetchone()
        source.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except sqlite3.DatabaseError as error:
        raise StoreDamaged(
            f"nothing can be saved: the list of its tables cannot be read ({error})",
            hint="restore a backup: `shiftboss restore --help`",
        ) from error
    return int(version)


def _create_schema(target: sqlite3.Connection, version: int) -> None:
    """The tables of that version, empty: those of the damaged file are not to be trusted."""
    for number, script in load_migrations("sqlite"):
        if number <= version:
            target.executescript(script)
    target.execute(f"PRAGMA user_version = {version}")
    for name in _tables(target):  # what a migration has put in comes from the damaged file, too
        target.execute(f'DELETE FROM "{name}"')  # noqa: S608


def _tables(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    )
    return [name for (name,) in rows.fetchall()]


def _copy(source: sqlite3.Connection, target: sqlite3.Connection, name: str) -> bool:
    """Whether all rows were copied."""
    columns = target.execute(f"PRAGMA table_info('{name}')").fetchall()
    keys = [f'"{column[1]}"' for column in sorted(columns, key=lambda row: row[5]) if column[5]]
    order = keys if _is_without_rowid(target, name) else ["rowid"]
    names = ", ".join(f'"{column[1]}"' for column in columns)
    insert = (
        f'INSERT OR IGNORE INTO "{name}" ({names}) '  # noqa: S608 - names of our own schema
        f"VALUES ({', '.join('?' * len(columns))})"
    )
    for direction in ("ASC", "DESC"):
        by = ", ".join(f"{column} {direction}" for column in order)
        query = f'SELECT {names} FROM "{name}" NOT INDEXED ORDER BY {by}'  # noqa: S608
        reader = _RowReader(source, query)
        for row in reader:
            _insert(target, insert, row)
        if reader.has_ended:
            return direction == "ASC"
    return False


class _RowReader:
    """The rows up to the first that cannot be read."""

    def __init__(self, source: sqlite3.Connection, query: str) -> None:
        self._source = source
        self._query = query
        self.has_ended = False

    def __iter__(self) -> Iterator[tuple[object, ...]]:
        try:
            yield from self._source.execute(self._query)
        except sqlite3.DatabaseError:
            return
        self.has_ended = True


def _insert(target: sqlite3.Connection, insert: str, row: tuple[object, ...]) -> None:
    try:
        target.execute(insert, row)
    except sqlite3.IntegrityError:
        return  # a rotten value that the schema does not allow


def _is_without_rowid(connection: sqlite3.Connection, name: str) -> bool:
    (found,) = connection.execute(
        "SELECT wr FROM pragma_table_list WHERE schema = 'main' AND name = ?", [name]
    ).fetchone()
    return bool(found)


def _remove_orphans(target: sqlite3.Connection) -> set[str]:
    """Remove what refers to a lost row, and what refers to that; the tables it was in."""
    tables: set[str] = set()
    while True:
        removed = {name for name in _tables(target) if _remove_orphans_of(target, name)}
        if not removed:
            return tables
        tables |= removed


def _remove_orphans_of(target: sqlite3.Connection, name: str) -> bool:
    references: dict[int, list[tuple[str, str, str]]] = {}
    for row in target.execute(f"PRAGMA foreign_key_list('{name}')").fetchall():
        references.setdefault(row[0], []).append((row[2], row[3], row[4]))
    removed = 0
    for columns in references.values():
        parent = columns[0][0]
        is_set = " AND ".join(f'"{name}"."{child}" IS NOT NULL' for _, child, _ in columns)
        same = " AND ".join(
            f'parent."{key or child}" = "{name}"."{child}"' for _, child, key in columns
        )
        removed += target.execute(
            f'DELETE FROM "{name}" WHERE {is_set} '  # noqa: S608
            f'AND NOT EXISTS (SELECT 1 FROM "{parent}" AS parent WHERE {same})'
        ).rowcount
    return removed > 0
