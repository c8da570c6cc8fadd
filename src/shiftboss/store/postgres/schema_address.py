"""The schema of a deployment, as a part of its address: `postgresql://.../shiftboss?schema=team_a`.

libpq does not know this parameter. Several deployments can share a database, each with its tables,
leader and notifications in a schema of its own.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Final

import psycopg
from psycopg.sql import SQL, Identifier

from shiftboss.errors import StoreUnavailable

_PARAMETER: Final = "schema="
# What needs no quotes in SQL, nor in the options of a connection. PostgreSQL keeps `pg_` to itself.
_NAME: Final = re.compile(r"(?!pg_|information_schema$)[a-z_][a-z0-9_]{0,62}")


def checked_schema(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise StoreUnavailable(
            "the name of the schema is invalid",
            field="schema",
            hint="use lower-case letters, digits and _, at most 63 of them, the first not a digit "
            "and not pg_",
        )
    return name


def with_schema(url: str, name: str) -> str:
    url, _ = split_schema(url)
    return f"{url}{'&' if '?' in url else '?'}{_PARAMETER}{checked_schema(name)}"


def split_schema(url: str) -> tuple[str, str | None]:
    """The address that libpq understands, and the schema, if it names one."""
    head, _, query = url.partition("?")
    pairs = query.split("&")
    names = [pair.removeprefix(_PARAMETER) for pair in pairs if pair.startswith(_PARAMETER)]
    if not names:
        return url, None
    others = "&".join(pair for pair in pairs if not pair.startswith(_PARAMETER))
    return f"{head}?{others}" if others else head, checked_schema(names[-1])


def make_schema(connection: psycopg.Connection) -> None:
    """Create the schema that the address names, unless it is there."""
    row = connection.execute("SELECT current_schema(), current_setting('search_path')").fetchone()
    assert row is not None, "SELECT without FROM returns one row"
    current, path = row
    if current is None and _NAME.fullmatch(path):
        # Another server that starts may be making it: IF NOT EXISTS does not see that.
        with suppress(psycopg.errors.UniqueViolation):
            connection.execute(SQL("CREATE SCHEMA IF NOT EXISTS {}").format(Identifier(path)))
