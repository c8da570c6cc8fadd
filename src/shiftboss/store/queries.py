"""Loads named queries and migrations from .sql files.

A query starts with a line `-- name: the_name`, which comments about its purpose may follow.
Parameters are written `:like_this`. A query of a dialect replaces the common one of the same name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
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


def numbered(query: str) -> tuple[str, tuple[str, ...]]:
    """A query with `$1` parameters, and their names in this order."""
    names = tuple(dict.fromkeys(_PARAMETER.findall(query)))
    numbers = {name: number for number, name in enumerate(names, start=1)}
    return _PARAMETER.sub(lambda match: f"${numbers[match[1]]}", query), names


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


# Such a migration can be made while servers of the version before are up, and they work on.
_OLDER_GO_ON = re.compile(r"^-- older servers: go on\s*$", re.MULTILINE)
_RIGHT_VERSION = "use the version of shiftboss that wrote it, or a later one"


def load_migrations(dialect: str) -> list[tuple[int, str]]:
    """The numbered migrations `0001_what_it_does.sql`, in order."""
    folder: Traversable = files("shiftboss.store") / dialect / "migrations"
    scripts = [item for item in folder.iterdir() if item.name.endswith(".sql")]
    return sorted((int(item.name[:4]), item.read_text(encoding="utf-8")) for item in scripts)


@cache
def latest_schema_version(dialect: str) -> int:
    folder: Traversable = files("shiftboss.store") / dialect / "migrations"
    return max(int(item.name[:4]) for item in folder.iterdir() if item.name.endswith(".sql"))


def stops_older_servers(text: str) -> bool:
    """Whether servers that do not know this migration cannot work with its tables. A migration that
    they can work with says so: `-- older servers: go on`."""
    return _OLDER_GO_ON.search(text) is None


def works_since(migrations: Sequence[tuple[int, str]]) -> int:
    """The oldest schema version whose servers can work with all of these."""
    return max((number for number, text in migrations if stops_older_servers(text)), default=0)


def check_schema_version(
    version: int, migrations: Sequence[tuple[int, str]], supported_since: int | None = None
) -> None:
    """Refuse a database that a later version of the program has migrated, unless that says that
    servers like this one can work with it: `supported_since`."""
    known = migrations[-1][0]
    if version > known and (supported_since is None or supported_since > known):
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
