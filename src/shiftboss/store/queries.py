"""Loads named queries and migrations from .sql files.

A query starts with a line `-- name: the_name`, which comments about its purpose may follow.
Parameters are written `:like_this`. A query of a dialect replaces the common one of the same name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from operator import itemgetter
from typing import Any, NamedTuple

from shiftboss.errors import SchemaMismatch

_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)
_PARAMETER = re.compile(r"(?<![:\w]):(\w+)")


def split_queries(text: str) -> Iterator[tuple[str, str]]:
    parts = _NAME.split(text)
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        lines = [line for line in body.splitlines() if not line.lstrip().startswith("--")]
        yield name, "\n".join(lines).strip().rstrip(";")


def load_queries(dialect: str) -> dict[str, str]:
    """The common queries, overridden by those of the dialect."""
    folder = files("shiftboss.store")
    queries: dict[str, str] = {}
    common = sorted((folder / "sql").iterdir(), key=lambda part: part.name)
    for part in (*common, folder / dialect / "queries.sql"):
        queries.update(split_queries(part.read_text(encoding="utf-8")))
    return queries


def percent_style(query: str) -> str:
    """Convert `:name` parameters to psycopg's style."""
    return _PARAMETER.sub(r"%(\1)s", query.replace("%", "%%"))


class PositionalQuery(NamedTuple):
    """A query with `?` parameters, and the function that puts named parameters in order: SQLite
    would look up each name on every call."""

    text: str
    in_order: Callable[[Mapping[str, object]], tuple[Any, ...]]


def positional(query: str) -> PositionalQuery:
    names = _PARAMETER.findall(query)
    in_order: Callable[[Mapping[str, object]], Any]
    in_order = itemgetter(*names) if len(names) > 1 else _parameters_in_order(names)
    return PositionalQuery(_PARAMETER.sub("?", query), in_order)


def _parameters_in_order(names: list[str]) -> Callable[[Mapping[str, object]], tuple[Any, ...]]:
    return lambda parameters: tuple(parameters[name] for name in names)


_RIGHT_VERSION = "use the version of shiftboss that wrote it, or a later one"


def load_migrations(dialect: str) -> list[tuple[int, str]]:
    """The numbered migrations `0001_what_it_does.sql`, in order."""
    folder: Traversable = files("shiftboss.store") / dialect / "migrations"
    scripts = [item for item in folder.iterdir() if item.name.endswith(".sql")]
    return sorted((int(item.name[:4]), item.read_text(encoding="utf-8")) for item in scripts)


def check_schema_version(version: int, migrations: list[tuple[int, str]]) -> None:
    """Refuse a database that a later version of the program has migrated."""
    known = migrations[-1][0]
    if version > known:
        raise SchemaMismatch(
            f"the database has schema version {version}; this program supports up to {known}",
            hint=_RIGHT_VERSION,
        )


def schema_mismatch(error: Exception) -> SchemaMismatch:
    """For a driver's error that names a missing table or column: the number of the schema is right,
    but another build has made it."""
    mismatch = SchemaMismatch(
        f"the database has the schema of another build of shiftboss: {error}", hint=_RIGHT_VERSION
    )
    mismatch.__cause__ = error
    return mismatch
