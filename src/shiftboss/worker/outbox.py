"""Reports that are on their way, one file each, in order."""

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
# Whoever writes holds the lock for two small files.
WRITING_PATIENCE_SECONDS: Final = 10.0

_WRITING: Final = "writing.lock"
_DELIVERING: Final = "delivering.lock"
_COURIER: Final = "courier.lock"
_PREPARED: Final = "prepared"
_REJECTED: Final = "rejected"


class Entry(Request):
    """A report with its address. The key makes a second delivery harmless; the digest is that of
    the checkpoint which was written with it."""

    swarm_id: SwarmId
    operation: Literal["register", "progress", "complete", "error"]
    key: str = Field(min_length=1, max_length=IDEMPOTENCY_KEY_CHARACTERS_MAX)
    body: dict[str, Any]
    checkpoint_digest: str | None = None


def outbox_path(worktree: str | Path, packet_id: int, packet_name: str) -> Path:
    return Path(worktree) / OUTBOX_FOLDER / f"packet-{packet_id}-{packet_name}"


class Outbox:
    """A folder. Files leave it only when the server has answered."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def writing(self) -> AbstractContextManager[None]:
        """Hold this to append, so that the numbers follow each other."""
        return locked(self.folder / _WRITING, WRITING_PATIENCE_SECONDS)

    def delivering(self, patience_seconds: float) -> AbstractContextManager[None]:
        """Hold this to deliver: one deliverer at a time keeps the order."""
        return locked(self.folder / _DELIVERING, patience_seconds)

    def being_courier(self) -> AbstractContextManager[None]:
        return locked(self.folder / _COURIER, 0.0)

    def prepare(self, entry: Entry) -> None:
        """On disk, but not yet on its way."""
        write_durably(self.folder / _PREPARED, entry.model_dump_json().encode())

    def prepared(self) -> Entry | None:
        content = read_if_there(self.folder / _PREPARED)
        try:
            return None if content is None else Entry.model_validate_json(content)
        except ValidationError:
            return None

    def send_prepared(self) -> None:
        """The prepared report is on its way, as the last of those that wait."""
        # A list that could not be had must not look empty: the number of a waiting report would
        # be given out again.
        files = self._listed()
        number = int(files[-1].stem) + 1 if files else 1
        move_durably(self.folder / _PREPARED, self.folder / f"{number:012d}.json")

    def drop_prepared(self) -> None:
        (self.folder / _PREPARED).unlink(missing_ok=True)

    def files(self) -> list[Path]:
        """The waiting reports, the oldest first; none when the folder is gone or not usable."""
        try:
            return self._listed()
        except OSError as error:
            log.debug("no reports can be found in %s: %s", self.folder, error)
            return []

    def _listed(self) -> list[Path]:
        found = self.folder.iterdir()
        return sorted(file for file in found if file.suffix == ".json" and file.stem.isdecimal())

    def read(self, file: Path) -> Entry | None:
        """None when the file was damaged: it is put aside."""
        try:
            # Anything else that can be opened may never come to an end.
            if stat.S_ISREG(file.lstat().st_mode):
                return Entry.model_validate_json(file.read_bytes())
            why = "it is not a plain file"
        except ValidationError as error:
            why = f"it cannot be read ({error.error_count()} errors)"
        self.reject(file, why)
        return None

    def reject(self, file: Path, why: str) -> None:
        """Put a report aside that the server will never take and that no caller waits for."""
        rejected = self.rejected_folder
        make_folder(rejected)
        target = rejected / f"{file.stem}-{file.lstat().st_mtime_ns}.json"
        file.replace(target)
        log.warning("report %s was not accepted: %s", target, why)

    @property
    def rejected_folder(self) -> Path:
        return self.folder / _REJECTED

    def rejected(self) -> frozenset[str]:
        """The names of the reports that were put aside."""
        try:
            return frozenset(file.name for file in self.rejected_folder.iterdir())
        except OSError:
            return frozenset()

    def remove_if_empty(self) -> None:
        """Remove the folder, unless something waits in it or lies in `rejected`."""
        if not self.folder.is_dir():
            return
        with self.writing(), self.delivering(0.0):
            left = {path.name for path in self.folder.iterdir()}
            if left <= {_WRITING, _DELIVERING, _COURIER}:
                for name in left:
                    (self.folder / name).unlink(missing_ok=True)
                self.folder.rmdir()
