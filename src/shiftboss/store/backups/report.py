"""What a backup contains, what a restore did, and the errors of both."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from shiftboss.defaults import PART_SUFFIX
from shiftboss.errors import Conflict, InvalidRequest
from shiftboss.system.files import move_durably

# Counted in both, so that a person sees at once what a backup has.
COUNTED_TABLES: Final = ("swarms", "tasks", "events", "receipts")


class BackupExists(Conflict):
    code = "backup_exists"
    title = "The file exists"


class DatabaseHasContent(Conflict):
    code = "database_has_content"
    title = "The database is not empty"


class NotABackup(InvalidRequest):
    code = "not_a_backup"
    title = "The file is not a backup that can be restored"


class BackupReport(NamedTuple):
    """`rows` are those of the counted tables. `incomplete`: the tables of a damaged database of
    which not all rows could be saved."""

    file: str
    store: str
    schema_version: int
    size_bytes: int
    rows: dict[str, int]
    incomplete: Sequence[str] = ()

    def as_json(self) -> dict[str, Any]:
        return self._asdict()


class RestoreReport(NamedTuple):
    """`kept` is where the former database is, if there was one. New attempts have epochs above
    `epoch_floor`."""

    file: str
    store: str
    schema_version: int
    rows: dict[str, int]
    kept: str | None
    epoch_floor: int

    def as_json(self) -> dict[str, Any]:
        return self._asdict()


@contextmanager
def new_private_file(file: Path) -> Iterator[Path]:
    """An empty file beside `file`, for its owner only, that gets its name when it is complete.
    After that, a crash cannot undo it. If it cannot be completed, it is removed."""
    part = file.with_name(f"{file.name}{PART_SUFFIX}")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        part.unlink(missing_ok=True)
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        yield part
        _sync(part)
        move_durably(part, file)
    except OSError as error:
        raise InvalidRequest(f"cannot write {file}: {error.strerror}", field="file") from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def check_is_new(file: Path) -> None:
    if file.exists():
        raise BackupExists(f"{file} exists; nothing was changed", hint="choose another name")


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def new_epoch_floor(now_ms: int, highest_epoch: int) -> int:
    """Above every epoch that was handed out before, by whatever server: the seconds of the clock.

    A number that is derived from the backup would be the same when it is restored twice.
    """
    return max(now_ms // 1000, highest_epoch)


def time_stamp(now_ms: int) -> str:
    return time.strftime("%Y%m%dT%H%M%S", time.gmtime(now_ms / 1000))
