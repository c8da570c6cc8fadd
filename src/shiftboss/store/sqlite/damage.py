"""Damage of a database file: how it is noticed, and what is said about it.

The first sign of damage ends the writing for good: nothing is acknowledged into a file that may
lose it. A note beside the file keeps the next server from starting as if nothing had happened.
"""

from __future__ import annotations

import logging
import os
import shlex
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from shiftboss.defaults import BACKUPS_FOLDER
from shiftboss.errors import StoreDamaged
from shiftboss.store.sqlite.log_check import check_log
from shiftboss.system.file_locks import try_lock

log = logging.getLogger(__name__)

# What is stored is not what was written, or cannot be read back.
_DAMAGE_CODES: Final = frozenset(
    {
        sqlite3.SQLITE_IOERR_READ,
        sqlite3.SQLITE_IOERR_SHORT_READ,
        sqlite3.SQLITE_IOERR_CORRUPTFS,
        sqlite3.SQLITE_IOERR_DATA,
    }
)
_DAMAGE_PRIMARY_CODES: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
# The live tables come first: a check that runs out of time has seen what the next hour depends on.
_CHECKED_FIRST: Final = ("swarms", "tasks", "assignments", "workers", "queues", "claims")

# What every SQLite file begins with.
MAGIC: Final = b"SQLite format 3\0"

# How long a burst of commits may go on without a look at the files.
FILES_UNCHECKED_SECONDS: Final = 0.01
_INTERRUPT_SECONDS: Final = 0.02

FileIdentity = tuple[int, int]


def means_damage(error: BaseException) -> bool:
    if isinstance(error, UnicodeDecodeError):
        return True  # SQLite quotes a damaged schema in its message
    code = error_code(error)
    return code in _DAMAGE_CODES or code & 0xFF in _DAMAGE_PRIMARY_CODES


def error_code(error: BaseException) -> int:
    return int(getattr(error, "sqlite_errorcode", 0) or 0)


class DamageWatch:
    """Of one database file. Its methods may be called on any thread.

    `damage` is what every later write is told. `is_changed`: another file, or none, is at the path.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files: dict[str, FileIdentity | None] = {}
        self._next_check = 0.0
        self.damage: StoreDamaged | None = None
        self.is_changed = False

    @property
    def note_file(self) -> Path:
        return Path(f"{self._path}.damaged")

    def found(self, reason: str, *, keep: bool = True) -> StoreDamaged:
        """`keep`: the file stays damaged, so the next server has to know."""
        if self.damage is None:
            self.damage = StoreDamaged(f"{self._path}: {reason}", hint=restore_hint(self._path))
            log.critical(
                "%s is damaged, and no more writes are accepted: %s. %s",
                self._path,
                reason,
                self.damage.hint,
            )
            if keep:
                self._write_note(reason)
        return self.damage

    def damage_of(self, error: BaseException) -> StoreDamaged | None:
        """The damage that the error of a statement means, if it does."""
        return self.found(str(error)) if means_damage(error) else None

    def _write_note(self, reason: str) -> None:
        try:
            self.note_file.write_text(f"{reason}\n", encoding="utf-8")
        except OSError as error:  # a disk that fails may refuse this, too
            log.warning("cannot write %s: %s", self.note_file, error.strerror)

    # -- before the file is opened

    def check_note(self) -> None:
        """Raises StoreDamaged if the file was found damaged before."""
        if not self.note_file.exists():
            return
        reason = self.note_file.read_text(encoding="utf-8", errors="replace").strip()
        raise StoreDamaged(
            f"{self._path} was found damaged: {reason}",
            hint=f"{restore_hint(self._path)}; if it is intact after all, remove the note: "
            f"rm {shlex.quote(str(self.note_file))}",
        )

    def check_closed_file(self) -> None:
        """Raises StoreDamaged. Nobody may have the file open."""
        self.check_note()
        if not _has_content(self._path):
            if _has_content(Path(f"{self._path}-wal")):
                raise self.found("the file is gone, and its write-ahead log is still there")
            return
        missing = check_log(self._path)
        if missing is not None:
            raise self.found(f"writes that were acknowledged are lost from its log: {missing}")

    @contextmanager
    def checked_unless_open(self) -> Iterator[None]:
        """Check the file before the block, and keep servers from opening it meanwhile. What a
        server has open, it checks itself. Raises StoreDamaged."""
        lock = None
        with suppress(OSError):  # such as a folder that cannot be written to
            lock = try_lock(Path(f"{self._path}.lock"))
        try:
            if lock is None:
                self.check_note()
            else:
                self.check_closed_file()
            yield
        finally:
            if lock is not None:
                os.close(lock)

    # -- while it is open

    def remember_files(self) -> None:
        """From now on these are the files that have to be at their paths."""
        self._files = {path: _identity(path) for path in (str(self._path), f"{self._path}-wal")}

    def check_files_now_and_then(self) -> StoreDamaged | None:
        """`check_files`, unless that was a moment ago: for a burst of commits."""
        if self.damage is None and time.monotonic() < self._next_check:
            return None
        return self.check_files()

    def check_files(self) -> StoreDamaged | None:
        """Two calls of `stat`: 3 to 15 microseconds."""
        if self.damage is not None:
            return self.damage
        self._next_check = time.monotonic() + FILES_UNCHECKED_SECONDS
        for path, remembered in self._files.items():
            identity = _identity(path)
            if identity != remembered:
                reason = "was deleted" if identity is None else "was replaced by another file"
                self.is_changed = True
                name = Path(path).name
                return self.found(
                    f"{name} {reason} while the server had it open", keep=not identity
                )
        return None


def check_open_file(connection: sqlite3.Connection, seconds: float) -> str | None:
    """The first damage that `PRAGMA quick_check` finds within the time, or None."""
    deadline = time.monotonic() + seconds
    rows = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    names = sorted((name for (name,) in rows), key=lambda name: name not in _CHECKED_FIRST)
    with _interrupted_at(deadline, connection):
        try:
            for name in names:
                if time.monotonic() >= deadline:
                    break
                (found,) = connection.execute(f"PRAGMA quick_check('{name}')").fetchone()
                if found != "ok":
                    return str(found)
        except sqlite3.OperationalError as error:
            if error_code(error) & 0xFF != sqlite3.SQLITE_INTERRUPT:
                raise
    return None


@contextmanager
def _interrupted_at(deadline: float, connection: sqlite3.Connection) -> Iterator[None]:
    """Interrupt what runs then, and what is started later: an interrupt between two statements has
    no effect."""
    is_done = threading.Event()

    def interrupt() -> None:
        pause = max(deadline - time.monotonic(), 0.0)
        while not is_done.wait(pause):
            connection.interrupt()
            pause = _INTERRUPT_SECONDS

    thread = threading.Thread(target=interrupt, name="shiftboss-check", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_done.set()
        thread.join()


def restore_hint(path: Path) -> str:
    """The commands that help, as they have to be typed."""
    if not path.exists():
        return way_back(path)
    return f"`shiftboss fsck --db {shlex.quote(str(path))}` shows the damage; {way_back(path)}"


def way_back(path: Path) -> str:
    """The commands that bring a backup back, or else what can still be read."""
    database = shlex.quote(str(path))
    backups = sorted((path.parent / BACKUPS_FOLDER).glob("*.backup"), key=lambda file: file.name)
    if backups:
        newest = shlex.quote(str(backups[-1]))
        return (
            f"stop the server, and `shiftboss restore {newest} --force --db {database}` "
            "brings the newest backup back"
        )
    if not path.exists():
        return "stop the server, and bring a backup back: `shiftboss restore --help`"
    if not _has_header(path):
        return "is --db right? If it is, bring a backup back: `shiftboss restore --help`"
    rest = shlex.quote(f"{path}.rest")
    return (
        "stop the server, and bring a backup back (`shiftboss restore --help`) or what can still "
        f"be read: `shiftboss backup {rest} --damaged --db {database}`, then "
        f"`shiftboss restore {rest} --force --db {database}`"
    )


def _has_header(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def _has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False


def _identity(path: str) -> FileIdentity | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - faster, and called for every commit
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino
