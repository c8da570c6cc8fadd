"""shiftboss milestone: reports a milestone of the completion contract, and shows its CI."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from shiftboss.cli.commands.claims.complete import show_refusal
from shiftboss.cli.common.client import RequestRefused, body_of, parse_answer
from shiftboss.cli.common.command import Output, ServerSession, server_command
from shiftboss.cli.common.options import Epoch, TaskId, TaskSwarm, WorkerName
from shiftboss.cli.common.output import print_line, show
from shiftboss.errors import ShiftbossError

# DONE is verified; the server answers after 50 seconds at the latest.
VERDICT_SECONDS: Final = 60.0


class Milestone(StrEnum):
    """Repeated here: importing the types of the protocol would take a tenth of a second."""

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
    typer.Option("--milestone", help="The milestone, with the options below instead of a line."),
]
Description = Annotated[str | None, typer.Option(metavar="TEXT", help="WORKING: what you work on.")]
Repo = Annotated[
    str | None, typer.Option(metavar="NAME", help="PUSHED_TO_CI, DONE: the repo of the policy.")
]
Commit = Annotated[
    str | None, typer.Option(metavar="SHA", help="PUSHED_TO_CI: the commit that was pushed.")
]
CiRun = Annotated[
    str | None,
    typer.Option(metavar="ID", help="PUSHED_TO_CI, DONE: the id of the CI run, or its URL."),
]
FailedJob = Annotated[
    str | None, typer.Option(metavar="JOB", help="FIXING_CI: the job that failed.")
]
Diagnosis = Annotated[str | None, typer.Option(metavar="TEXT", help="FIXING_CI: why it failed.")]
AllGreen = Annotated[
    bool | None,
    typer.Option("--all-green/--not-all-green", help="DONE: whether every job passed."),
]
SyncJob = Annotated[str | None, typer.Option(metavar="JOB", help="DONE: the sync job.")]
SyncStatus = Annotated[
    str | None, typer.Option(metavar="STATE", help="DONE: how the sync job ended.")
]
BlockedBy = Annotated[
    str | None, typer.Option("--blocked-by", metavar="TEXT", help="BLOCKED: what blocks the task.")
]
Tool = Annotated[
    str | None, typer.Option(metavar="TOOL", help="BLOCKED_PERMISSION: the denied tool.")
]
Error = Annotated[
    str | None, typer.Option(metavar="TEXT", help="BLOCKED_PERMISSION: the error of the tool.")
]
Substate = Annotated[
    str | None,
    typer.Option(metavar="STEP", help="The step within the milestone, such as writing_tests."),
]
Decisions = Annotated[
    list[str] | None,
    typer.Option(
        "--decision",
        metavar="TEXT",
        help="A decision for the worker that continues; can be repeated.",
    ),
]


class BadReport(ShiftbossError):
    code = "bad_report"
    title = "The report cannot be used"


@server_command()
def milestone(
    session: ServerSession,
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
    decision: Decisions = None,
    name: WorkerName = None,
    epoch: Epoch = None,
    swarm: TaskSwarm = None,
) -> Output:
    """Report a milestone of the completion contract.

    Give it as a line of the contract or with options. DONE is verified.

    \b
    Examples:
      shiftboss milestone bd-1 WORKING: Writing the parser
      shiftboss milestone bd-1 --milestone PUSHED_TO_CI --commit SHA --ci-run 42
    """
    options = {
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
    request = {"bead_id": task_id, "name": name, "epoch": epoch, "decisions": decision or None}
    swarm_id = session.swarm_of(task_id, swarm)
    body = body_of(swarm_id, request | _line_or_report(" ".join(line or []), options))
    try:
        document = session.client.post("/bus/report_milestone", body, seconds=VERDICT_SECONDS)
    except RequestRefused as refusal:
        if session.as_json or not refusal.problem.get("violations"):
            raise
        raise show_refusal(swarm_id, task_id, refusal.problem) from None
    answer = parse_answer(document, "milestone")
    return Output(document, lambda: _show(answer), _still_verifying(answer))


def _still_verifying(answer: dict[str, Any]) -> BadReport | None:
    if answer["status"] != "verifying":
        return None
    return BadReport(
        f"{answer['bead_id']} is still being verified",
        hint="run the same command again to keep waiting",
    )


def _line_or_report(line: str, options: Mapping[str, object]) -> dict[str, object]:
    report = {name: value for name, value in options.items() if value is not None}
    if line and report:
        raise BadReport("give a line or options, not both")
    if line:
        return {"line": line}
    if "milestone" not in report:
        raise BadReport(
            "the milestone is missing",
            hint="give a line such as 'WORKING: Writing the parser', or --milestone",
        )
    return {"report": report}


def _show(answer: dict[str, Any]) -> None:
    """An answer has only the members that apply."""
    print_line(f"{answer['bead_id']} {answer['status']}: {answer['line']}")
    for name in ("progress", "receipt_id", "question_id", "paused"):
        if answer.get(name):
            print_line(f"{name.removesuffix('_id')}: {answer[name]}")
    ci = answer.get("ci")
    if ci:
        run = f", run #{ci['run_id']}" if ci.get("run_id") else ""
        print_line(f"CI of {ci['sha'][:10]}: {ci['state']}{run}")
    if ci and ci["jobs"]:
        from shiftboss.cli.views.contract import jobs_table

        show(jobs_table(ci["jobs"]))
    if answer.get("hint"):
        print_line(answer["hint"])
