"""shiftboss run and land: runs a plan until its work has landed."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from shiftboss.cli.commands.runs.plan_preflight import (
    make_preflight,
    note_warnings,
    problems_of,
    refusal,
)
from shiftboss.cli.commands.runs.run_modes import given_options, refuse_contradictions
from shiftboss.cli.common.command import Output, print_output
from shiftboss.cli.common.discovery import default_database
from shiftboss.cli.common.log_options import Format, Level, LogFile, LogFormat, LogLevel
from shiftboss.cli.common.options import CaFile, PlanFile, TokenFile
from shiftboss.cli.common.output import print_json, show
from shiftboss.cli.common.tokens import operator_token_from_environment, read_token
from shiftboss.errors import InvalidPlan, InvalidPolicy

if TYPE_CHECKING:
    from shiftboss.cli.commands.runs.background import RunFolder
    from shiftboss.orchestrator.run.bootstrap import RunOptions
    from shiftboss.orchestrator.run.plan_file import PlanFile as LoadedPlan
    from shiftboss.orchestrator.run.plan_run import RunOutcome
    from shiftboss.orchestrator.run.preflight import Preflight
    from shiftboss.orchestrator.run.run_context import RunPaths
    from shiftboss.protocol.plan import Plan


INTERRUPTED: Final = 130

DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Only show when each task would start, and what it waits for."),
]
Workers = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, max=200, help="How many agents run at once."),
]
DefaultAgent = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The agent for tasks that name none."),
]
AutoMerge = Annotated[
    bool | None,
    typer.Option(
        "--auto-merge/--no-auto-merge",
        help="Land accepted work at once, or leave it to `shiftboss land`.",
    ),
]
Retry = Annotated[
    bool,
    typer.Option("--retry", help="Give tasks that failed too often one more attempt."),
]
Wait = Annotated[
    bool,
    typer.Option(
        "--wait/--no-wait",
        help="Keep running while a task waits for you: a question, a pause, a budget.",
    ),
]
Detach = Annotated[
    bool, typer.Option("--detach", help="Run in the background; return once it has started.")
]
Attach = Annotated[
    bool, typer.Option("--attach", help="Watch the running run of this plan until it ends.")
]
Stop = Annotated[
    bool, typer.Option("--stop", help="Stop the running run of this plan, as Ctrl-C would.")
]
RunServerUrl = Annotated[
    str | None,
    typer.Option(
        "--server",
        envvar="SHIFTBOSS_URL",
        metavar="URL[,URL]",
        help="Share the server at this address, or several on one database. Default: the running "
        "server of this folder, or one that is started for the run.",
    ),
]
RunDb = Annotated[
    str | None,
    typer.Option(
        envvar="SHIFTBOSS_DB",
        metavar="DB",
        help="A SQLite file, or postgresql://... for a PostgreSQL server. "
        "Default: that of .shiftboss here or in a parent folder.",
    ),
]
Trees = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Where to make work trees, outside of any repository. "
        "Default: the state folder of your account.",
    ),
]
PolicyFile = Annotated[
    Path | None,
    typer.Option(
        "--policy",
        metavar="FILE",
        help="The policy file for a server that is started here. "
        "Default: shiftboss.yaml beside the plan, if it exists.",
    ),
]
OwnServer = Annotated[
    bool,
    typer.Option(
        "--own-server",
        help="Start a server for this run on a free port, even if another one answers.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")]


def run(
    context: typer.Context,
    plan_file: PlanFile,
    dry_run: DryRun = False,
    workers: Workers = None,
    agent: DefaultAgent = None,
    auto_merge: AutoMerge = None,
    retry: Retry = False,
    wait: Wait = True,
    detach: Detach = False,
    attach: Attach = False,
    stop: Stop = False,
    server: RunServerUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,  # noqa: ARG001 - exported already
    db: RunDb = None,
    policy: PolicyFile = None,
    trees: Trees = None,
    own_server: OwnServer = False,
    log_level: Level = LogLevel.WARNING,
    log_format: Format = LogFormat.TEXT,
    log_file: LogFile = None,
    as_json: AsJson = False,
) -> None:
    """Run a plan until its work is verified and landed.

    It can be stopped, or killed, and started again: it continues where it was. It uses the running
    server of .shiftboss in this folder or in the nearest parent folder that has one, or starts one
    for the time of the run; with --server, it shares that one.

    \b
    Example:
      shiftboss run plan.yaml --workers 4
      shiftboss run plan.yaml --detach
    """
    refuse_contradictions(given_options(context))
    if attach:
        raise typer.Exit(_run_folder(plan_file, db).attach(as_json=as_json))
    if stop:
        print_output(_run_folder(plan_file, db).stop(), as_json=as_json)
        return
    loaded = _load(plan_file, as_json=as_json)
    plan = _changed(loaded.plan, workers=workers, agent=agent, auto_merge=auto_merge)
    policy = _policy_of(plan_file, policy)
    preflight = make_preflight(loaded, plan, db or default_database(), trees)
    if dry_run:
        print_output(_dry_run(plan_file, plan, policy, preflight), as_json=as_json)
        return
    if preflight.problems:
        print_output(refusal(plan_file, preflight.problems, preflight.warnings), as_json=as_json)
    note_warnings(preflight.warnings)
    if detach:
        print_output(_run_folder(plan_file, db).detach(), as_json=as_json)
        return
    options = replace(
        _run_options(plan, server, token_file, db, policy),
        trees=trees,
        own_server=own_server,
        retry=retry,
        wait=wait,
        plan_file=plan_file.absolute(),
        log_options=_start_log(log_level, log_format, log_file),
    )
    raise typer.Exit(_run(options, as_json=as_json))


def _changed(plan: Plan, **settings: object) -> Plan:
    """With the settings that the command line gives."""
    given = {name: value for name, value in settings.items() if value is not None}
    return plan.model_copy(update=given)


def _start_log(level: LogLevel, form: LogFormat, file: Path | None) -> list[str]:
    """Without any of its options a run has no log but its progress. Returns the options of its
    server's log, which is a file in the folder of the run."""
    if file is None and (level, form) == (LogLevel.WARNING, LogFormat.TEXT):
        return []
    from shiftboss.system.logs import LogSettings, start_logs

    start_logs(LogSettings(level.value, form.value, file))
    return ["--log-level", level.value, "--log-format", form.value]


def land(
    context: typer.Context,
    plan_file: PlanFile,
    tasks: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TASK]...", help="The tasks to land. Default: all of them."),
    ] = None,
    server: RunServerUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,  # noqa: ARG001 - exported already
    db: RunDb = None,
    policy: PolicyFile = None,
    own_server: OwnServer = False,
    as_json: AsJson = False,
) -> None:
    """Land the accepted work of a plan on its target branches."""
    from shiftboss.cli.common.until_signal import until_signal
    from shiftboss.cli.views.runs import outcome_lines
    from shiftboss.orchestrator.run.bootstrap import land_plan
    from shiftboss.orchestrator.run.plan_file import load_plan
    from shiftboss.orchestrator.run.progress import Progress

    refuse_contradictions(given_options(context))
    plan, progress = load_plan(plan_file), Progress()
    options = _run_options(plan, server, token_file, db, _policy_of(plan_file, policy))
    landing = land_plan(replace(options, own_server=own_server), tasks or [], progress)
    outcome = until_signal(landing)
    if outcome is None:
        raise typer.Exit(1)
    if as_json:
        print_json(json.dumps(outcome.as_json()).encode())
    else:
        advice = f"when that is fixed: {_command_line()}" if outcome.failed else None
        show(*outcome_lines(outcome, progress, advice, with_usage=False))
    raise typer.Exit(0 if outcome.done else 1)


def _load(plan_file: Path, *, as_json: bool) -> LoadedPlan:
    """Lists all problems of a plan that is not valid."""
    from shiftboss.orchestrator.run.plan_file import read_plan_file

    try:
        return read_plan_file(plan_file)
    except (InvalidPlan, InvalidPolicy) as error:
        problems = problems_of(error)
        if problems:
            print_output(refusal(plan_file, problems, []), as_json=as_json)
        raise


def _policy_of(plan_file: Path, policy: Path | None) -> Path | None:
    """The given policy, or the one beside the plan."""
    from shiftboss.evidence.survey.policy_file import default_policy_file

    return policy or default_policy_file(plan_file.resolve().parent)


def _run_options(
    plan: Plan, server: str | None, token_file: Path | None, db: str | None, policy: Path | None
) -> RunOptions:
    from shiftboss.client.servers import Servers
    from shiftboss.orchestrator.run.bootstrap import RunOptions
    from shiftboss.system.private_environment import hide_secrets

    hide_secrets()  # agents run as the same user, and this process holds the operator's token
    token = read_token(token_file)
    return RunOptions(
        plan,
        Servers.at(server, token_file=token_file) if server else None,
        db or default_database(),
        policy,
        token=token,
        operator_token=operator_token_from_environment(),
    )


def _run(options: RunOptions, *, as_json: bool) -> int:
    """Returns the exit code. A signal stops the run and returns its tasks to the queue."""
    from shiftboss.cli.common.until_signal import until_signal
    from shiftboss.cli.views.runs import RunView
    from shiftboss.orchestrator.run.bootstrap import run_plan
    from shiftboss.orchestrator.run.plan_run import RunOutcome
    from shiftboss.orchestrator.run.progress import Progress
    from shiftboss.orchestrator.run.run_files import write_result

    progress = Progress()
    with RunView(progress, quiet=as_json) as view:
        outcome = until_signal(run_plan(options, progress))
    outcome = outcome or RunOutcome.of_stopped(progress)
    if as_json:
        print_json(json.dumps(outcome.as_json()).encode())
    else:
        view.show_outcome(outcome, _run_advice(outcome))
    exit_code = INTERRUPTED if outcome.stopped else 0 if outcome.done else 1
    write_result(_paths(options.plan, options.database).folder, exit_code, outcome.as_json())
    return exit_code


def _run_folder(plan_file: Path, db: str | None) -> RunFolder:
    from shiftboss.cli.commands.runs.background import RunFolder
    from shiftboss.orchestrator.run.plan_file import load_plan

    folder = _paths(load_plan(plan_file), db or default_database()).folder
    return RunFolder(folder, plan_file, ["--db", db] if db else [])


def _paths(plan: Plan, db: str) -> RunPaths:
    from shiftboss.orchestrator.run.bootstrap import state_of
    from shiftboss.orchestrator.run.run_context import RunPaths

    assert plan.swarm is not None, "load_plan sets the swarm"
    return RunPaths.of(state_of(db), plan.swarm)


def _run_advice(outcome: RunOutcome) -> str | None:
    if outcome.stopped:
        return f"stopped; to continue: {_command_line()}"
    if outcome.failed:
        return f"to try the failed tasks again: {_command_line('--retry')}"
    if outcome.held:
        return f"do what the waiting tasks need, then continue: {_command_line()}"
    return None


def _command_line(*options: str) -> str:
    """The command that is running, with these options added: for people to copy."""
    missing = [option for option in options if option not in sys.argv]
    return shlex.join(["shiftboss", *sys.argv[1:], *missing])


def _dry_run(plan_file: Path, plan: Plan, policy: Path | None, found: Preflight) -> Output:
    """The schedule, also of a plan that cannot run here; then what is wrong."""
    from shiftboss.evidence.survey.policy_file import load_policy
    from shiftboss.rules.plans.schedule import dry_run

    schedule = dry_run(plan, load_policy(policy) if policy is not None else None, plan.workers)
    refused = refusal(plan_file, found.problems, found.warnings)

    def view() -> None:
        from shiftboss.cli.views.plans import dry_run_tables

        show(*dry_run_tables(schedule))
        refused.view()

    answer = schedule.as_json() | found._asdict()
    return Output.of(answer, view, refused.error if found.problems else None)
