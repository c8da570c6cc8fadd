"""shiftboss milestone: say where a task stands, and see what CI says."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from shiftboss.cli.commands.claims.complete import refused
from shiftboss.cli.common.bus_calls import body_of
from shiftboss.cli.common.client import RequestRefused, connected, parsed
from shiftboss.cli.common.options import (
    DEFAULT_SERVER,
    DEFAULT_SWARM,
    AsJson,
    Epoch,
    Server,
    Swarm,
    TaskId,
    TokenFile,
    WorkerName,
)
from shiftboss.cli.common.output import print_json, say, show
from shiftboss.errors import ShiftbossError

# The options of `shiftboss milestone`: a report in members, where a line is not at hand.


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


# DONE is verified; the server answers after 50 seconds at the latest.
VERDICT_SECONDS: Final = 60.0


class BadReport(ShiftbossError):
    code = "bad_report"
    title = "The report cannot be used"


def milestone(
    task_id: TaskId,
    line: Line = None,
    milestone: MilestoneName = None,
    description: Description = None,
    repo: Repo = None,
    commit: Commit = None,
    ci_run: CiRun = None,
    failed_job: FailedJob = None,
    diagnosis: Diagnosis = None,
    all_green: AllGreen = None,
    sync_job: SyncJob = None,
    sync_status: SyncStatus = None,
    blocked_by: BlockedBy = None,
    tool: Tool = None,
    error: Error = None,
    substate: Substate = None,
    name: WorkerName = None,
    epoch: Epoch = None,
    swarm: Swarm = DEFAULT_SWARM,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Say where a task stands, as a line of the contract or with options. DONE is verified."""
    report = {
        "milestone": milestone.value if milestone else None,
        "description": description,
        "repo": repo,
        "commit": commit,
        "ci_run": ci_run,
        "failed_job": failed_job,
        "diagnosis": diagnosis,
        "all_green": all_green,
        "sync_job": sync_job,
        "sync_status": sync_status,
        "reason": blocked_by,
        "tool": tool,
        "error": error,
        "substate": substate,
    }
    about = {"bead_id": task_id, "name": name, "epoch": epoch}
    said = about | _said(" ".join(line or []), report)
    with connected(server, token_file, as_json=as_json) as client:
        try:
            answer = client.post(
                "/bus/report_milestone", body_of(swarm, said), seconds=VERDICT_SECONDS
            )
        except RequestRefused as refusal:
            if as_json or not refusal.problem.get("violations"):
                raise
            raise refused(task_id, refusal.problem) from None
    _tell(answer, as_json=as_json)


def _said(line: str, report: Mapping[str, object]) -> dict[str, object]:
    told = {name: value for name, value in report.items() if value is not None}
    if line and told:
        raise BadReport("give a line or options, not both")
    if line:
        return {"line": line}
    if "milestone" not in told:
        raise BadReport(
            "what is the milestone?",
            hint="give a line such as 'WORKING: Writing the parser', or --milestone",
        )
    return {"report": told}


def _tell(answer: bytes, *, as_json: bool) -> None:
    told = parsed(answer, "milestone")
    is_open = told["status"] == "verifying"
    if as_json:
        print_json(answer)
    else:
        _show(told)
    if is_open and as_json:
        raise typer.Exit(1)
    if is_open:
        raise BadReport(
            f"{told['bead_id']} is still being verified", hint="the same command again waits on"
        )


def _show(told: dict[str, Any]) -> None:
    """What says nothing is left out of an answer."""
    say(f"{told['bead_id']} {told['status']}: {told['line']}")
    for name in ("progress", "receipt_id", "question_id", "paused"):
        if told.get(name):
            say(f"{name.removesuffix('_id')}: {told[name]}")
    ci = told.get("ci")
    if ci:
        run = f", run #{ci['run_id']}" if ci.get("run_id") else ""
        say(f"CI of {ci['sha'][:10]}: {ci['state']}{run}")
    if ci and ci["jobs"]:
        # rich is for those who look at something.
        from shiftboss.cli.views.contract import jobs_table

        show(jobs_table(ci["jobs"]))
    if told.get("hint"):
        say(told["hint"])
