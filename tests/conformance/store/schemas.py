"""Reads the schema of a database."""

from __future__ import annotations

import sqlite3

import psycopg

Schema = list[tuple[object, ...]]

_POSTGRES = """
SELECT 'column', table_name::text, column_name::text, data_type::text || ' ' || is_nullable
FROM information_schema.columns WHERE table_schema = 'public'
UNION ALL
SELECT 'constraint', conrelid::regclass::text, contype::text, pg_get_constraintdef(oid)
FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND contype <> 'n'
UNION ALL
SELECT 'index', tablename::text, indexname::text, indexdef
FROM pg_indexes WHERE schemaname = 'public'
ORDER BY 1, 2, 3, 4
"""


def sqlite_schema(path: str) -> Schema:
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT type, tbl_name, name, sql FROM sqlite_master ORDER BY 1, 3")
    found = rows.fetchall()
    connection.close()
    return found


def postgres_schema(url: str) -> Schema:
    with psycopg.connect(url) as connection:
        return list(connection.execute(_POSTGRES).fetchall())


def sqlite_columns(path: str) -> set[tuple[object, ...]]:
    """Table, column and whether it is nullable."""
    connection = sqlite3.connect(path)
    found = connection.execute(
        'SELECT m.name, c.name, c."notnull" = 0 FROM sqlite_master AS m, '
        "pragma_table_info(m.name) AS c WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'"
    ).fetchall()
    connection.close()
    return {(table, column, bool(nullable)) for table, column, nullable in found}


def postgres_columns(url: str) -> set[tuple[object, ...]]:
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT table_name::text, column_name::text, is_nullable = 'YES' "
            "FROM information_schema.columns "
            "WHERE table_schema = 'public' AND table_name <> 'migrations'"
        )
        return set(rows.fetchall())
