"""shiftboss run and land: a plan from its first task to its last landing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from shiftboss.cli.commands.server.serve_options import DEFAULT_DB, Db
from shiftboss.cli.common.options import DEFAULT_SERVER, Server, TokenFile
from shiftboss.cli.common.output import print_json, show
from shiftboss.cli.common.tokens import given_operator_token, read_token

if TYPE_CHECKING:
    from shiftboss.orchestrator.run.bootstrap import RunOptions
    from shiftboss.protocol.plan import Plan


INTERRUPTED: Final = 130

PlanFile = Annotated[Path, typer.Argument(metavar="PLAN", help="The plan, a YAML file.")]
Trees = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Where work trees are made: outside of any repository. "
        "In the state folder of your account, if it is left out.",
    ),
]
PolicyFile = Annotated[
    Path | None,
    typer.Option(
        "--policy",
        metavar="FILE",
        help="The policy file for a server that is started here; "
        "shiftboss.yaml beside the plan, if there is one, when left out.",
    ),
]
OwnServer = Annotated[
    bool,
    typer.Option(
        "--own-server",
        help="Start a server for this run, on any free port, whether or not another answers.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")]


def run(
    plan_file: PlanFile,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only show what would start when, and what is in the way."),
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=200, help="How many agents at once."),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Who does the tasks that name no agent."),
    ] = None,
    auto_merge: Annotated[
        bool | None,
        typer.Option(
            "--auto-merge/--no-auto-merge",
            help="Land accepted work at once, or leave it to `shiftboss land`.",
        ),
    ] = None,
    retry: Annotated[
        bool,
        typer.Option("--retry", help="Give what has failed too often one attempt more."),
    ] = False,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    db: Db = DEFAULT_DB,
    policy: PolicyFile = None,
    trees: Trees = None,
    own_server: OwnServer = False,
    as_json: AsJson = False,
) -> None:
    """Take a plan to landed, proven work. Killed and started again, it goes on.

    The server at --server is used; if there is none, one is started for as long as this runs.
    """
    changes = {"workers": workers, "agent": agent, "auto_merge": auto_merge}
    # Only these commands pay for the imports.
    from shiftboss.orchestrator.run.plan_file import load_plan

    plan = load_plan(plan_file)
    plan = plan.model_copy(update={key: one for key, one in changes.items() if one is not None})
    policy = _policy_of(plan_file, policy)
    if dry_run:
        _show_dry_run(plan, policy, as_json=as_json)
        return
    wish = _wish(plan, server, token_file, db, policy)
    wish = replace(wish, trees=trees, own_server=own_server, retry=retry)
    raise typer.Exit(_run(wish, as_json=as_json))


def land(
    plan_file: PlanFile,
    tasks: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="These tasks; all, without any.")
    ] = None,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    db: Db = DEFAULT_DB,
    policy: PolicyFile = None,
    own_server: OwnServer = False,
    as_json: AsJson = False,
) -> None:
    """Bring accepted work of a plan to its target branches."""
    from shiftboss.cli.common.until_signal import until_signal
    from shiftboss.cli.views.runs import outcome_lines
    from shiftboss.orchestrator.run.bootstrap import land_plan
    from shiftboss.orchestrator.run.plan_file import load_plan

    plan = load_plan(plan_file)
    wish = _wish(plan, server, token_file, db, _policy_of(plan_file, policy))
    outcome = until_signal(land_plan(replace(wish, own_server=own_server), tasks or []))
    if outcome is None:
        raise typer.Exit(1)
    if as_json:
        print_json(json.dumps(outcome.as_json()).encode())
    else:
        show(*outcome_lines(outcome))
    raise typer.Exit(0 if outcome.done else 1)


def _policy_of(plan_file: Path, said: Path | None) -> Path | None:
    """The one that was given, or that lies beside the plan."""
    from shiftboss.evidence.survey.policy_file import default_policy_file

    return said or default_policy_file(plan_file.resolve().parent)


def _wish(
    plan: Plan, server: str, token_file: Path | None, db: str, policy: Path | None
) -> RunOptions:
    from shiftboss.client.server_address import Server as ServerAddress
    from shiftboss.orchestrator.run.bootstrap import RunOptions
    from shiftboss.system.processes import close_to_others

    close_to_others()  # agents run as the same user, and we hold the operator's token
    address = ServerAddress.at(server, read_token(token_file))
    return RunOptions(plan, address, db, policy, operator_token=given_operator_token())


def _run(wish: RunOptions, *, as_json: bool) -> int:
    """The exit code. A signal stops it, and everything is given back."""
    from shiftboss.cli.common.until_signal import until_signal
    from shiftboss.cli.views.runs import RunView
    from shiftboss.orchestrator.run.bootstrap import run_wish
    from shiftboss.orchestrator.run.plan_run import RunOutcome
    from shiftboss.orchestrator.run.progress import Progress

    board = Progress()
    with RunView(board, quiet=as_json) as view:
        outcome = until_signal(run_wish(wish, board))
    told = outcome or RunOutcome.of_stopped(board)
    if as_json:
        print_json(json.dumps(told.as_json()).encode())
    else:
        view.show_end(told)
    if told.stopped:
        return INTERRUPTED
    return 0 if told.done else 1


def _show_dry_run(plan: Plan, policy: Path | None, *, as_json: bool) -> None:
    from shiftboss.cli.views.plans import dry_run_tables
    from shiftboss.evidence.survey.policy_file import load_policy
    from shiftboss.rules.plans.schedule import dry_run

    found = dry_run(plan, load_policy(policy) if policy is not None else None, plan.workers)
    if as_json:
        print_json(json.dumps(found.as_json()).encode())
        return
    show(*dry_run_tables(found))
