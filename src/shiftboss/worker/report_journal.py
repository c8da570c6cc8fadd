"""Writes a report and its checkpoint to disk, both or neither, before the report is sent."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from shiftboss.errors import ShiftbossError
from shiftboss.protocol.packets import checkpoint_path
from shiftboss.system.file_locks import LockHeldError
from shiftboss.system.files import make_folder, read_if_there, remove_durably, write_durably
from shiftboss.worker.outbox import Entry, Outbox, outbox_path


class WorktreeUnusable(ShiftbossError):
    """Raised before anything is sent: a report that is not on disk is not sent."""

    code = "worktree_unusable"
    title = "The worktree cannot hold the checkpoint"


class RecordedReport(NamedTuple):
    """`previous` is the checkpoint before it; `checkpoint` is None if the report wrote none."""

    entry: Entry
    checkpoint: bytes | None
    previous: bytes | None


class ReportJournal:
    """Of one packet."""

    def __init__(self, worktree: str, packet_id: int, packet_name: str) -> None:
        self._worktree = Path(worktree)
        self._checkpoint = checkpoint_path(worktree, packet_id, packet_name)
        self.outbox = Outbox(outbox_path(worktree, packet_id, packet_name))

    def record(self, entry: Entry, checkpoint: Mapping[str, object] | None) -> RecordedReport:
        """When this returns, both are on disk; when it raises, neither counts.

        The report is prepared first and appended to the outbox after the checkpoint was written. A
        crash in between leaves a prepared report. The digest of the checkpoint then tells whether
        the report counts.
        """
        content = None if checkpoint is None else _rendered(checkpoint)
        with self._worktree_errors(), self.outbox.writing():
            self._ignore_in_git()
            self._finish_after_crash()
            recorded = RecordedReport(entry, content, read_if_there(self._checkpoint))
            self.outbox.prepare(entry.model_copy(update={"checkpoint_digest": _digest(content)}))
            try:
                self._write_checkpoint(content)
                self.outbox.send_prepared()
            except OSError:
                self._restore(recorded)
                raise
        return recorded

    def correct(self, checkpoint: Mapping[str, object]) -> None:
        """Replace the checkpoint without a report."""
        with self._worktree_errors(), self.outbox.writing():
            self._finish_after_crash()
            self._write_checkpoint(_rendered(checkpoint))

    def undo(self, recorded: RecordedReport) -> None:
        """Restore the previous checkpoint, unless another one was written since."""
        if recorded.checkpoint is None:
            return
        with self._worktree_errors(), self.outbox.writing():
            if read_if_there(self._checkpoint) == recorded.checkpoint:
                self._restore(recorded)

    def _finish_after_crash(self) -> None:
        prepared = self.outbox.prepared()
        digest = _digest(read_if_there(self._checkpoint))
        if prepared is not None and digest is not None and prepared.checkpoint_digest == digest:
            self.outbox.send_prepared()
        self.outbox.drop_prepared()

    def _write_checkpoint(self, content: bytes | None) -> None:
        if content is not None:
            make_folder(self._checkpoint.parent)
            write_durably(self._checkpoint, content)

    def _restore(self, recorded: RecordedReport) -> None:
        self.outbox.drop_prepared()
        if recorded.previous is not None:
            write_durably(self._checkpoint, recorded.previous)
        elif recorded.checkpoint is not None:
            remove_durably(self._checkpoint)

    def _ignore_in_git(self) -> None:
        """An agent's `git add -A` must not commit these files."""
        try:
            with (self._worktree / ".spellbook" / ".gitignore").open("xb") as file:
                file.write(b"*\n")
        except FileExistsError:
            pass

    @contextmanager
    def _worktree_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise WorktreeUnusable(
                f"worktree: cannot write in {self._worktree}: {error.strerror or error}",
                field="worktree",
                hint="create the folder, or give one that this user may write to",
            ) from error
        except LockHeldError as error:
            raise WorktreeUnusable(
                f"worktree: another process holds the lock {error}", field="worktree"
            ) from error


def _rendered(checkpoint: Mapping[str, object]) -> bytes:
    return (json.dumps(checkpoint, indent=2) + "\n").encode()


def _digest(content: bytes | None) -> str | None:
    return None if content is None else blake2b(content, digest_size=16).hexdigest()
