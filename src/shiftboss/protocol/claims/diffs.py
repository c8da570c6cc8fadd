"""A difference between two commits as people read it: files, hunks and lines, all bounded."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from shiftboss.protocol.bus import BusRequest, TaskId
from shiftboss.protocol.fields import INTEGER_MAX, Answer

FileScope = Literal["owned", "readonly", "outside", "generated"]
DiffSource = Literal["claim", "branch", "landed"]


class DiffHunk(Answer):
    """`lines` are pairs: a space, a plus or a minus, and the text, in which all control characters
    but tabs are made visible."""

    header: str
    old_start: int
    new_start: int
    lines: list[tuple[str, str]]


class FileDiff(Answer):
    """`status` is A, M, D, R or T (type or mode). `added` and `removed` are None for binary files.
    `truncated`: some of its lines, or all, are left out."""

    path: str
    old_path: str | None = None
    status: str
    added: int | None
    removed: int | None
    binary: bool = False
    truncated: bool = False
    scope: FileScope | None = None
    hunks: list[DiffHunk] = Field(default=[])


class WorkDiff(Answer):
    """What differs from `base` to `commit`. `truncated`: not all files are listed."""

    base: str
    commit: str
    files: list[FileDiff]
    files_changed: int
    truncated: bool = False


class ShowDiffRequest(BusRequest):
    """The work of a task: of the claim with this number, else as it landed or as it was claimed,
    else what is on its branch."""

    bead_id: TaskId
    claim_id: Annotated[int, Field(ge=1, le=INTEGER_MAX)] | None = None


class DiffAnswer(WorkDiff):
    """`source` is where the commit comes from. The scope of each file is that of the contract that
    the work is judged by."""

    source: DiffSource
    claim_id: int | None = None
    contract_version: int
