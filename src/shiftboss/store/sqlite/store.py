"""The SQLite store: one writing thread, a few reading ones, one server per file."""

from __future__ import annotations

import asyncio
import fcntl
import os
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from shiftboss.errors import DatabaseInUse, StoreUnavailable
from shiftboss.store.current_actor import in_name_of_caller
from shiftboss.store.group_writer import GroupWriter
from shiftboss.store.monitoring.measures import StoreMeasures
from shiftboss.store.port import ClockReading, CommitListener, UseCase, nothing_to_reload
from shiftboss.store.queries import latest_schema_version
from shiftboss.store.row_cache import RowCache
from shiftboss.store.sqlite.damage import DamageWatch, means_damage
from shiftboss.store.sqlite.log_size import LogSize
from shiftboss.store.sqlite.session import SqliteSession, mismatch_of
from shiftboss.store.sqlite.writing_session import WritingSession
from shiftboss.store.transaction import SqlTransaction
from shiftboss.store.transaction_part import NO_PARKED_POLLS, ParkedPolls

T = TypeVar("T")

READERS = 4
# Others hold the lock for a moment: an offline change, or a run that asks whether it is free.
LOCK_SECONDS = 1.0
_PAUSE_SECONDS = 0.02
# How soon an idle server notices that its file is gone.
WATCH_SECONDS = 5.0


class SqliteStore:
    """See `shiftboss.store.port.Store`."""

    name = "sqlite"
    shared = False

    def __init__(
        self, path: str | Path, *, cache_rows: bool = True, checks_file: bool = True
    ) -> None:
        """`checks_file`: this process does not have the file open yet."""
        # Resolved, so that a symbolic link cannot bypass the lock.
        self.path = Path(path).resolve()
        self.schema_version = latest_schema_version("sqlite")
        self._row_cache = RowCache() if cache_rows else None
        self._checks_file = checks_file
        self._watch = DamageWatch(self.path)
        self._local = threading.local()
        self._sessions: list[SqliteSession] = []
        self.measures = StoreMeasures()

    async def open(
        self,
        on_commit: CommitListener,
        on_gap: Callable[[], None],  # noqa: ARG002 - there are no other servers
        polls: ParkedPolls = NO_PARKED_POLLS,
        on_settings: Callable[[], None] = nothing_to_reload,  # noqa: ARG002
    ) -> None:
        self._lock = await asyncio.to_thread(lock_file, self.path)
        try:
            self._writing = await asyncio.to_thread(self._open_writing, polls)
        except SqliteSession.driver_error as error:
            os.close(self._lock)
            if means_damage(error):
                raise self._watch.found(str(error), keep=False) from error
            raise StoreUnavailable(f"cannot open {self.path}: {error}") from error
        except BaseException:
            os.close(self._lock)
            raise
        self._writer = GroupWriter(
            "shiftboss-writer",
            self._writing.run_batch,
            on_commit,
            self._writing.probe,
            self.measures,
        )
        self._readers = ThreadPoolExecutor(READERS, "shiftboss-reader")
        self._watching = asyncio.create_task(self._watch_files())

    async def _watch_files(self) -> None:
        """A server that is idle says, too, that its file is gone: every request looks by itself."""
        loop = asyncio.get_running_loop()
        while self._watch.damage is None:
            await asyncio.sleep(WATCH_SECONDS)
            await loop.run_in_executor(self._readers, self._watch.check_files)

    def _open_writing(self, polls: ParkedPolls) -> WritingSession:
        if self._checks_file:
            self._watch.check_closed_file()
        log_size = LogSize(self.path, self.measures)
        return WritingSession(self.path, self._watch, self._row_cache, polls, log_size)

    def write(self, use_case: UseCase[T], partition: str) -> asyncio.Future[T]:
        if self._watch.damage is not None:
            raise self._watch.damage.repeated()
        return self._writer.submit(in_name_of_caller(use_case), partition)

    async def read(self, use_case: UseCase[T]) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, self._read, use_case)

    def _read(self, use_case: UseCase[T]) -> T:
        session: SqliteSession | None = getattr(self._local, "session", None)
        damage = self._watch.check_files_now_and_then()
        if session is None:
            damage = self._watch.check_files()
            if damage is not None and self._watch.is_changed:
                raise damage.repeated()
        try:
            if session is None:
                session = SqliteSession(self.path, read_only=True, watch=self._watch)
                self._local.session = session
                self._sessions.append(session)
            with session.snapshot():
                return use_case(SqlTransaction(session))
        except SqliteSession.driver_error as error:
            damage = self._watch.damage_of(error)
            if damage is not None:
                raise damage.repeated() from error
            unreadable = StoreUnavailable(f"the database cannot be read: {error}")
            raise mismatch_of(error) or unreadable from error

    async def lead(
        self,
        duties: Callable[[], Awaitable[None]],
        on_call: Callable[[], None],  # noqa: ARG002 - there are no other servers
    ) -> None:
        """The only server of a file is its leader."""
        await duties()

    def leader_term(self) -> int | None:
        return None

    async def call_leader(self) -> None:
        pass

    async def read_clock(self, own_clock_ns: Callable[[], int]) -> ClockReading | None:  # noqa: ARG002
        return None

    def failing(self) -> StoreUnavailable | None:
        return self._watch.damage or self._writer.failing

    async def close(self) -> None:
        self._watching.cancel()
        await asyncio.gather(self._watching, return_exceptions=True)
        await self._writer.close()
        await asyncio.to_thread(self._readers.shutdown)
        for session in self._sessions:
            session.close()
        self._writing.close()
        os.close(self._lock)


def lock_file(path: Path) -> int:
    """Lock `<database>.lock` while the server runs; the system releases the lock when it dies."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreUnavailable(
            f"cannot open {path}: {error.strerror}", hint="choose another --db"
        ) from error
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if time.monotonic() < deadline:
                time.sleep(_PAUSE_SECONDS)
                continue
            os.close(lock)
            raise DatabaseInUse(
                f"a server is using {path}",
                hint="stop it, or choose another --db",
            ) from error
        return lock
