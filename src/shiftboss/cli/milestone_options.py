"""The options of `shiftboss milestone`: a report in members, where a line is not at hand."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Milestone(StrEnum):
    """Said again here: the types of the protocol cost an everyday command a tenth of a second."""

    WORKING = "WORKING"
    PUSHED_TO_CI = "PUSHED_TO_CI"
    FIXING_CI = "FIXING_CI"
    DONE = "DONE"
    BLOCKED = "BLOCKED"
    BLOCKED_PERMISSION = "BLOCKED_PERMISSION"


Line = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="LINE", help="The report as a line, such as 'WORKING: Writing the parser'."
    ),
]
MilestoneName = Annotated[
    Milestone | None,
    typer.Option("--milestone", help="The milestone, with the options below in place of a line."),
]
Description = Annotated[str | None, typer.Option(metavar="TEXT", help="WORKING: what you do.")]
Repo = Annotated[
    str | None, typer.Option(metavar="NAME", help="PUSHED_TO_CI, DONE: the repo of the policy.")
]
Commit = Annotated[
    str | None, typer.Option(metavar="SHA", help="PUSHED_TO_CI: the commit that was pushed.")
]
CiRun = Annotated[
    str | None, typer.Option(metavar="ID", help="PUSHED_TO_CI, DONE: the run, or its address.")
]
FailedJob = Annotated[str | None, typer.Option(metavar="JOB", help="FIXING_CI: what is red.")]
Diagnosis = Annotated[str | None, typer.Option(metavar="TEXT", help="FIXING_CI: why it is.")]
AllGreen = Annotated[
    bool | None,
    typer.Option("--all-green/--not-all-green", help="DONE: whether every job has passed."),
]
SyncJob = Annotated[str | None, typer.Option(metavar="JOB", help="DONE: the sync job.")]
SyncStatus = Annotated[str | None, typer.Option(metavar="STATE", help="DONE: how it ended.")]
BlockedBy = Annotated[
    str | None, typer.Option("--blocked-by", metavar="TEXT", help="BLOCKED: by what.")
]
Tool = Annotated[str | None, typer.Option(metavar="TOOL", help="BLOCKED_PERMISSION: of which.")]
Error = Annotated[str | None, typer.Option(metavar="TEXT", help="BLOCKED_PERMISSION: its words.")]
Substate = Annotated[
    str | None, typer.Option(metavar="S", help="Where within the milestone, such as writing_tests.")
]
