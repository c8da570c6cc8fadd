"""Reading a whole database, without a server, and looking for damage below the rows.

Nothing is written and no lock is taken. If a server is running, the result is the state of one
moment.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from shiftboss.errors import StoreUnavailable
from shiftboss.store.port import Transaction

T = TypeVar("T")


class AtRest(NamedTuple, Generic[T]):
    """`damage` is what the database itself finds wrong; with it, `value` may be None. `is_in_use`:
    a server has the database open."""

    value: T | None
    damage: list[str]
    is_in_use: bool


def read_at_rest(address: str | Path, work: Callable[[Transaction], T]) -> AtRest[T]:
    """Run `work` on one state of the database. Raises StoreUnavailable."""
    if str(address).startswith(("postgresql://", "postgres://")):
        # psycopg is optional, and importing it takes 140 ms.
        from shiftboss.store.postgres.at_rest import read_postgres

        return read_postgres(str(address), work)
    from shiftboss.store.sqlite.at_rest import read_sqlite

    return read_sqlite(Path(address), work)


def check_version(version: int, latest: int, name: str) -> None:
    if version == latest:
        return
    hint = "start a server once, and it brings the database up to date: shiftboss serve"
    raise StoreUnavailable(
        f"{name} has schema version {version}; this version of shiftboss needs {latest}",
        hint=hint if version < latest else "use the version of shiftboss that wrote it",
    )
