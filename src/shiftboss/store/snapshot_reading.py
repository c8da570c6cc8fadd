"""Reading a snapshot: one consistent state of a whole database, without a server.

It also looks for damage below the rows. Nothing is written and no lock is taken. If a server is
running, the result is the state of one moment.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from shiftboss.errors import StoreUnavailable
from shiftboss.store.port import Transaction

T = TypeVar("T")


class SnapshotReading(NamedTuple, Generic[T]):
    """`value` is what was made of the snapshot. `damage` is what the database itself finds wrong;
    with it, `value` may be None. `is_in_use`: a server has the database open."""

    value: T | None
    damage: list[str]
    is_in_use: bool


def read_snapshot(address: str | Path, work: Callable[[Transaction], T]) -> SnapshotReading[T]:
    """Run `work` on one snapshot of the database. Raises StoreUnavailable."""
    if str(address).startswith(("postgresql://", "postgres://")):
        # psycopg is optional, and importing it takes 140 ms.
        from shiftboss.store.postgres.snapshot_reading import read_postgres_snapshot

        return read_postgres_snapshot(str(address), work)
    from shiftboss.store.sqlite.snapshot_reading import read_sqlite_snapshot

    return read_sqlite_snapshot(Path(address), work)


def check_version(version: int, latest: int, name: str) -> None:
    if version == latest:
        return
    hint = "start a server once, and it brings the database up to date: shiftboss serve"
    raise StoreUnavailable(
        f"{name} has schema version {version}; this version of shiftboss needs {latest}",
        hint=hint if version < latest else "use the version of shiftboss that wrote it",
    )
