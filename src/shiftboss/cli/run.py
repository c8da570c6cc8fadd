"""shiftboss run and land: a plan from its first task to its last landing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shiftboss.cli.options import DEFAULT_SERVER, Server, TokenFile
from shiftboss.cli.output import print_json, show
from shiftboss.cli.serve_options import DEFAULT_DB, Db
from shiftboss.cli.tokens import read_token

if TYPE_CHECKING:
    from shiftboss.orchestrator.run import Outcome
    from shiftboss.orchestrator.setting_up import RunWish
    from shiftboss.protocol.plan import Plan

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
    from shiftboss.orchestrator.plan_file import load_plan

    plan = load_plan(plan_file)
    plan = plan.model_copy(update={key: one for key, one in changes.items() if one is not None})
    policy = _policy_of(plan_file, policy)
    if dry_run:
        _show_dry_run(plan, policy, as_json=as_json)
        return
    wish = replace(_wish(plan, server, token_file, db, policy), trees=trees, own_server=own_server)
    outcome = _run(wish, as_json=as_json)
    raise typer.Exit(0 if outcome is not None and outcome.done else 1)


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
    from shiftboss.cli.run_view import outcome_lines
    from shiftboss.cli.until_signal import until_signal
    from shiftboss.orchestrator.plan_file import load_plan
    from shiftboss.orchestrator.setting_up import land_plan

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
    from shiftboss.evidence.policy_file import default_policy_file

    return said or default_policy_file(plan_file.resolve().parent)


def _wish(
    plan: Plan, server: str, token_file: Path | None, db: str, policy: Path | None
) -> RunWish:
    from shiftboss.orchestrator.setting_up import RunWish
    from shiftboss.worker.server_address import Server as ServerAddress

    return RunWish(plan, ServerAddress.at(server, read_token(token_file)), db, policy)


def _run(wish: RunWish, *, as_json: bool) -> Outcome | None:
    """None when it was stopped by a signal: everything was given back."""
    from shiftboss.cli.run_view import RunView
    from shiftboss.cli.until_signal import until_signal
    from shiftboss.orchestrator.board import Board
    from shiftboss.orchestrator.setting_up import run_wish

    board = Board()
    with RunView(board, quiet=as_json) as view:
        outcome = until_signal(run_wish(wish, board))
    if as_json:
        print_json(json.dumps(outcome.as_json() if outcome else {"done": False}).encode())
    else:
        view.show_end(outcome)
    return outcome


def _show_dry_run(plan: Plan, policy: Path | None, *, as_json: bool) -> None:
    from shiftboss.cli.plan_tables import dry_run_tables
    from shiftboss.evidence.policy_file import load_policy
    from shiftboss.rules.dry_run import dry_run

    found = dry_run(plan, load_policy(policy) if policy is not None else None, plan.workers)
    if as_json:
        print_json(json.dumps(found.as_json()).encode())
        return
    show(*dry_run_tables(found))
