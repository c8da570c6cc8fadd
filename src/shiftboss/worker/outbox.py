"""The outbox: reports that the server has not answered yet, one file each, in order."""

from __future__ import annotations

import logging
import stat
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field, ValidationError

from shiftboss.protocol.fields import IDEMPOTENCY_KEY_CHARACTERS_MAX, Request, SwarmId
from shiftboss.system.file_locks import locked
from shiftboss.system.files import make_folder, move_durably, read_if_there, write_durably

log = logging.getLogger(__name__)

OUTBOX_FOLDER: Final = Path(".spellbook") / "outbox"
# A writer holds the lock only while it writes two small files.
WRITE_LOCK_SECONDS: Final = 10.0

_WRITING: Final = "writing.lock"
_DELIVERING: Final = "delivering.lock"
_COURIER: Final = "courier.lock"
_PREPARED: Final = "prepared"
_REJECTED: Final = "rejected"


class Entry(Request):
    """A report and where it goes. The key makes a second delivery harmless; the digest is that of
    the checkpoint that was written with the report."""

    swarm_id: SwarmId
    operation: Literal["register", "progress", "complete", "error"]
    key: str = Field(min_length=1, max_length=IDEMPOTENCY_KEY_CHARACTERS_MAX)
    body: dict[str, Any]
    checkpoint_digest: str | None = None


def outbox_path(worktree: str | Path, packet_id: int, packet_name: str) -> Path:
    return Path(worktree) / OUTBOX_FOLDER / f"packet-{packet_id}-{packet_name}"


class Outbox:
    """A folder. A file leaves it only after the server has answered."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def writing(self) -> AbstractContextManager[None]:
        """The lock for appending: it keeps the numbers consecutive."""
        return locked(self.folder / _WRITING, WRITE_LOCK_SECONDS)

    def delivering(self, wait_seconds: float) -> AbstractContextManager[None]:
        """The lock for delivering: one deliverer at a time keeps the order."""
        return locked(self.folder / _DELIVERING, wait_seconds)

    def courier_lock(self) -> AbstractContextManager[None]:
        return locked(self.folder / _COURIER, 0.0)

    def prepare(self, entry: Entry) -> None:
        """Write the report to disk, but do not append it yet."""
        write_durably(self.folder / _PREPARED, entry.model_dump_json().encode())

    def prepared(self) -> Entry | None:
        content = read_if_there(self.folder / _PREPARED)
        try:
            return None if content is None else Entry.model_validate_json(content)
        except ValidationError:
            return None

    def send_prepared(self) -> None:
        """Append the prepared report after those that wait."""
        # A folder that cannot be listed must not look empty: a number in use would be given again.
        files = self._listed()
        number = int(files[-1].stem) + 1 if files else 1
        move_durably(self.folder / _PREPARED, self.folder / f"{number:012d}.json")

    def drop_prepared(self) -> None:
        (self.folder / _PREPARED).unlink(missing_ok=True)

    def files(self) -> list[Path]:
        """The waiting reports, oldest first; none if the folder is gone or cannot be read."""
        try:
            return self._listed()
        except OSError as error:
            log.debug("cannot list the reports in %s: %s", self.folder, error)
            return []

    def _listed(self) -> list[Path]:
        files = self.folder.iterdir()
        return sorted(file for file in files if file.suffix == ".json" and file.stem.isdecimal())

    def read(self, file: Path) -> Entry | None:
        """None if the file is damaged: it is moved to `rejected`."""
        try:
            # Reading a pipe or a device might never end.
            if stat.S_ISREG(file.lstat().st_mode):
                return Entry.model_validate_json(file.read_bytes())
            reason = "it is not a regular file"
        except ValidationError as error:
            reason = f"it cannot be read ({error.error_count()} errors)"
        self.reject(file, reason)
        return None

    def reject(self, file: Path, reason: str) -> None:
        """Move a report aside that the server will never accept and no caller waits for."""
        rejected = self.rejected_folder
        make_folder(rejected)
        target = rejected / f"{file.stem}-{file.lstat().st_mtime_ns}.json"
        file.replace(target)
        log.warning("report %s was not accepted: %s", target, reason)

    @property
    def rejected_folder(self) -> Path:
        return self.folder / _REJECTED

    def rejected(self) -> frozenset[str]:
        """The names of the rejected reports."""
        try:
            return frozenset(file.name for file in self.rejected_folder.iterdir())
        except OSError:
            return frozenset()

    def remove_if_empty(self) -> None:
        """Remove the folder, unless reports wait in it or were rejected."""
        if not self.folder.is_dir():
            return
        with self.writing(), self.delivering(0.0):
            left = {path.name for path in self.folder.iterdir()}
            if left <= {_WRITING, _DELIVERING, _COURIER}:
                for name in left:
                    (self.folder / name).unlink(missing_ok=True)
                self.folder.rmdir()
