"""The notes that keep receipts with the commits they are about: `refs/notes/shiftboss`.

A note is a list of lines, one envelope each. So notes of several clones can be merged line by line
(`git notes merge -s cat_sort_uniq`), and other people can add lines of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from shiftboss.errors import TreeUnavailable, UnknownReceipt
from shiftboss.orchestrator.git.repository import GitRepo
from shiftboss.orchestrator.git.runner import checked
from shiftboss.system.fast_import import commit_start, written_note

NOTES_REF: Final = "refs/notes/shiftboss"
# How often the notes are written again because somebody else wrote some in the meantime.
_TRIES: Final = 10
# How fast-import refuses to move a ref that has moved since it was read.
_MOVED: Final = ("not updating", "but expected", "reference already exists")
_MISSING_CODE: Final = 1


async def read_note(repo: GitRepo, commit: str) -> bytes:
    """Raises UnknownReceipt if the commit has no note here."""
    has_notes = await repo.commit_of(NOTES_REF) is not None
    note = await _note(repo, commit) if has_notes else b""
    if not note:
        raise UnknownReceipt(
            f"{commit} has no note in {NOTES_REF}",
            hint="notes are fetched by name: git fetch origin "
            f"{NOTES_REF}:{NOTES_REF}"
            + ("; commits that did not land as verified work have none" if has_notes else ""),
        )
    return note


async def add_to_notes(repo: GitRepo, lines: Mapping[str, Sequence[str]], why: str) -> bool:
    """Add lines to the notes of commits. Lines that are there already are not added again. Returns
    whether anything was added. No line of anybody is lost, even if others write notes at the same
    time. Raises TreeUnavailable, also if one of the commits is missing: fast-import would leave a
    crash report."""
    for _ in range(_TRIES):
        # Read first: notes that are written after this make fast-import refuse.
        tip, *commits = await repo.commits_of(NOTES_REF, *lines)
        for commit, there in zip(lines, commits, strict=True):
            if there is None:
                raise TreeUnavailable(f"the commit {commit} is not in {repo.common}")
        notes = {
            commit: note
            for commit, added in lines.items()
            if (note := _extended(await _note(repo, commit) if tip else b"", added)) is not None
        }
        if not notes:
            return False
        if await _write(repo, tip, notes, why):
            return True
    raise TreeUnavailable(
        f"{NOTES_REF} moved {_TRIES} times while notes were written",
        hint="try again when no other process writes notes",
    )


def _extended(note: bytes, added: Sequence[str]) -> bytes | None:
    """None if the note has all of the lines."""
    present = note.splitlines()
    missing = [line.encode() for line in added if line.encode() not in present]
    if not missing:
        return None
    start = note if not note or note.endswith(b"\n") else note + b"\n"
    return start + b"".join(line + b"\n" for line in missing)


async def _note(repo: GitRepo, commit: str) -> bytes:
    """The text of a note; empty if there is none."""
    listed = await repo.run(["notes", f"--ref={NOTES_REF}", "list", commit])
    if listed.code == _MISSING_CODE and not listed.out:
        return b""
    blob = checked(listed, f"the note of {commit}")
    content = await repo.run(["cat-file", "blob", blob])
    checked(content, f"the note of {commit}")
    return content.out


async def _write(repo: GitRepo, tip: str | None, notes: Mapping[str, bytes], why: str) -> bool:
    """One commit on the notes ref. False if the ref has moved. `git notes` itself would overwrite
    what another process has written since; fast-import compares."""
    committer = await repo.committer()
    people = [f"committer {committer}".encode(errors="replace")]
    parents = [tip.encode()] if tip is not None else []
    stream = commit_start(NOTES_REF, people, why.encode(errors="replace"), parents) + b"".join(
        written_note(commit, note) for commit, note in notes.items()
    )
    output = await repo.run(["fast-import", "--quiet", "--date-format=raw"], stdin=stream)
    if output.code != 0 and any(message in output.err.lower() for message in _MOVED):
        return False
    checked(output, "writing notes")
    return True
