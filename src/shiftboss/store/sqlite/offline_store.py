"""The store of a file that no server has open, for a command that answers by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from shiftboss.errors import DatabaseInUse, Forbidden, StoreUnavailable
from shiftboss.store.monitoring.measures import StoreMeasures
from shiftboss.store.port import ClockReading, CommitListener, UseCase, nothing_to_reload
from shiftboss.store.queries import latest_schema_version
from shiftboss.store.sqlite.damage import DamageWatch
from shiftboss.store.sqlite.session import SqliteSession
from shiftboss.store.sqlite.store import SqliteStore
from shiftboss.store.transaction import SqlTransaction
from shiftboss.store.transaction_part import NO_PARKED_POLLS, ParkedPolls

T = TypeVar("T")

# Another command may be writing; that takes a moment.
LOCK_SECONDS: Final = 3.0
_PAUSE_SECONDS: Final = 0.05


class OfflineStore:
    """See `shiftboss.store.port.Store`. It reads without a lock, even while a server is up. The
    first write takes the lock of a server and keeps it until the store is closed. Without `writes`,
    there is none: the caller is not the operator of this database."""

    name = "sqlite"
    shared = False

    def __init__(self, path: Path, *, writes: bool = True) -> None:
        self.path = path.resolve()
        self.schema_version = latest_schema_version("sqlite")
        self.has_written = False
        self.measures = StoreMeasures()
        self._writes = writes
        self._writing: SqliteStore | None = None

    async def open(
        self,
        on_commit: CommitListener,
        on_gap: Callable[[], None],
        polls: ParkedPolls = NO_PARKED_POLLS,
        on_settings: Callable[[], None] = nothing_to_reload,  # noqa: ARG002
    ) -> None:
        self._on_commit, self._on_gap, self._polls = on_commit, on_gap, polls
        self._first_write = asyncio.Lock()
        self._reader = ThreadPoolExecutor(1, "shiftboss-reader")
        self._session = await self._in_reader(self._open_reading)

    def _open_reading(self) -> SqliteSession:
        with DamageWatch(self.path).checked_unless_open():
            session = SqliteSession(self.path, read_only=True)
        latest = self.schema_version
        version = session.schema_version
        if version == latest:
            return session
        session.close()
        hint = "start a server once, and it brings the database up to date: shiftboss serve"
        raise StoreUnavailable(
            f"{self.path} has schema version {version}; this version of shiftboss needs {latest}",
            hint=hint if version < latest else "use the version of shiftboss that wrote it",
        )

    def write(self, use_case: UseCase[T], partition: str) -> asyncio.Future[T]:
        return asyncio.ensure_future(self._write(use_case, partition))

    async def _write(self, use_case: UseCase[T], partition: str) -> T:
        if not self._writes:
            raise Forbidden(
                "agents cannot act as the operator, who alone changes a database without a server",
                hint="ask a person to do this, in a shell that no agent has started",
            )
        async with self._first_write:
            if self._writing is None:
                self._writing = await self._open_writing()
        result = await self._writing.write(use_case, partition)
        self.has_written = True
        return result

    async def _open_writing(self) -> SqliteStore:
        store = SqliteStore(self.path, cache_rows=False, checks_file=False)
        deadline = asyncio.get_running_loop().time() + LOCK_SECONDS
        while True:
            try:
                await store.open(self._on_commit, self._on_gap, self._polls)
            except DatabaseInUse as error:
                if asyncio.get_running_loop().time() > deadline:
                    raise DatabaseInUse(
                        f"another process is using {self.path}; nothing was changed",
                        hint="a server may be starting or stopping: try again in a moment",
                    ) from error
                await asyncio.sleep(_PAUSE_SECONDS)
            else:
                return store

    async def read(self, use_case: UseCase[T]) -> T:
        return await self._in_reader(lambda: self._read(use_case))

    def _read(self, use_case: UseCase[T]) -> T:
        with self._session.snapshot():
            return use_case(SqlTransaction(self._session))

    async def _in_reader(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._reader, work)
        except SqliteSession.driver_error as error:
            raise StoreUnavailable(f"cannot read {self.path}: {error}") from error

    async def lead(
        self, duties: Callable[[], Awaitable[None]], on_call: Callable[[], None]
    ) -> None:
        """Offline, no duties run."""

    def leader_term(self) -> int | None:
        return None

    async def call_leader(self) -> None:
        pass

    async def read_clock(self, own_clock_ns: Callable[[], int]) -> ClockReading | None:  # noqa: ARG002
        return None

    def failing(self) -> StoreUnavailable | None:
        return None

    async def close(self) -> None:
        await asyncio.to_thread(self._reader.shutdown)
        self._session.close()
        if self._writing is not None:
            await self._writing.close()
