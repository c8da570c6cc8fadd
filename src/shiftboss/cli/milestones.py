"""shiftboss milestone: say where a task stands, and see what CI says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import typer

from shiftboss.cli import milestone_options as members
from shiftboss.cli.bus_calls import body_of
from shiftboss.cli.client import Refused, parsed
from shiftboss.cli.completion import refused
from shiftboss.cli.connection import connected
from shiftboss.cli.options import (
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
from shiftboss.cli.output import print_json, say, show
from shiftboss.errors import ShiftbossError

# DONE is verified; the server answers after 50 seconds at the latest.
VERDICT_SECONDS: Final = 60.0


class BadReport(ShiftbossError):
    code = "bad_report"
    title = "The report cannot be used"


def milestone(
    task_id: TaskId,
    line: members.Line = None,
    milestone: members.MilestoneName = None,
    description: members.Description = None,
    repo: members.Repo = None,
    commit: members.Commit = None,
    ci_run: members.CiRun = None,
    failed_job: members.FailedJob = None,
    diagnosis: members.Diagnosis = None,
    all_green: members.AllGreen = None,
    sync_job: members.SyncJob = None,
    sync_status: members.SyncStatus = None,
    blocked_by: members.BlockedBy = None,
    tool: members.Tool = None,
    error: members.Error = None,
    substate: members.Substate = None,
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
        except Refused as refusal:
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
        from shiftboss.cli.contract_tables import jobs_table

        show(jobs_table(ci["jobs"]))
    if told.get("hint"):
        say(told["hint"])
