"""The one writing session of a file: opened again when a commit failed, closed to damage."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shiftboss.errors import OutcomeUnknown, StoreDamaged, StoreUnavailable
from shiftboss.store.batches import BatchResult, Outcome, nothing_changed, run_batch
from shiftboss.store.port import UseCase
from shiftboss.store.row_cache import RowCache
from shiftboss.store.sqlite.damage import DamageWatch
from shiftboss.store.sqlite.log_size import LogSize
from shiftboss.store.sqlite.session import SqliteSession, create_privately
from shiftboss.store.transaction_part import ParkedPolls


class WritingSession:
    """Used by the writer thread only.

    A commit whose fsync failed has left frames behind the end of the log. The next commit
    overwrites them, so they last only if the process dies before that. They are never taken for
    committed here: after a failed fsync they may be in the cache of the system only.
    """

    def __init__(
        self,
        path: Path,
        watch: DamageWatch,
        row_cache: RowCache | None,
        polls: ParkedPolls,
        log_size: LogSize,
    ) -> None:
        """Raises sqlite3.Error and StoreDamaged."""
        self._path = path
        self._watch = watch
        self._row_cache = row_cache
        self._polls = polls
        self._log_size = log_size
        create_privately(path)
        try:
            self._session = self._open_checked(is_first=True)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            damage = watch.damage_of(error)
            if damage is not None:
                raise damage from error
            raise
        watch.remember_files()

    @property
    def session(self) -> SqliteSession:
        return self._session

    def _open(self) -> SqliteSession:
        return SqliteSession(
            self._path, row_cache=self._row_cache, polls=self._polls, watch=self._watch
        )

    def run_batch(self, use_cases: Sequence[UseCase[Any]]) -> BatchResult:
        refusal = self._watch.damage or self._reopen_if_broken()
        if refusal is None:
            result = run_batch(self._session, use_cases)
            # After the commit: what is acknowledged was in the file that is at the path.
            refusal = self._watch.check_files_now_and_then()
            if refusal is None:
                self._limit_log()
                return result
        return BatchResult([Outcome(error=refusal) for _ in use_cases], [])

    def _limit_log(self) -> None:
        if self._session.is_broken:
            return
        try:
            self._session.limit_log(self._log_size)
        except sqlite3.Error as error:  # what was committed is in the log
            self._watch.damage_of(error)

    def probe(self) -> StoreUnavailable | None:
        refusal = self._reopen_if_broken() or self._watch.check_files()
        if refusal is not None:
            return refusal
        try:
            self._session.probe()
        except (sqlite3.Error, MemoryError) as error:
            refusal = self._session.refusal(error)
            self._session.rollback()
            # Nobody waits for the outcome of a probe.
            return nothing_changed(error) if isinstance(refusal, OutcomeUnknown) else refusal
        return None

    def _reopen_if_broken(self) -> StoreUnavailable | None:
        if not self._session.is_broken:
            return None
        try:
            # First the new one: the last connection that is closed would write to the file.
            opened = self._open_checked()
        except StoreDamaged as damage:
            return damage
        except (sqlite3.Error, MemoryError) as error:
            return self._watch.damage_of(error) or nothing_changed(error)
        broken, self._session = self._session, opened
        broken.forget()
        broken.close()
        return None

    def _open_checked(self, *, is_first: bool = False) -> SqliteSession:
        opened = self._open()
        try:
            if is_first:
                opened.migrate()
            opened.check()
            if is_first:
                opened.prepare_log()
            opened.read_epoch_floor()
        except BaseException:
            opened.close()
            raise
        return opened

    def close(self) -> None:
        self._session.close()
