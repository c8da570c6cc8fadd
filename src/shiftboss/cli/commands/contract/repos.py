"""shiftboss repo: who works where, who may start, and the operator's release of a lock."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from shiftboss.cli.common.bus_calls import OperatorPlaces, ask, ask_as_operator
from shiftboss.cli.common.client import parsed
from shiftboss.cli.common.options import (
    DEFAULT_SERVER,
    DEFAULT_SWARM,
    AsJson,
    OperatorTokenFile,
    Server,
    TokenFile,
)
from shiftboss.cli.common.output import print_json, say, show
from shiftboss.cli.views.times import now
from shiftboss.errors import ShiftbossError

repo = typer.Typer(help="Look at the repos of the policy, and release them.", no_args_is_help=True)

RepoName = Annotated[str, typer.Argument(metavar="NAME", help="A repo of the policy.")]


class CannotSpawn(ShiftbossError):
    code = "cannot_spawn"
    title = "The repo cannot be worked on now"


@repo.command("list")
def list_repos(
    server: Server = DEFAULT_SERVER, token_file: TokenFile = None, as_json: AsJson = False
) -> None:
    """List the repos in their phases: who works on them, what CI says, what is halted."""
    answer = ask(server, token_file, "list_repos", DEFAULT_SWARM, as_json=as_json)
    if as_json:
        print_json(answer)
        return
    told = parsed(answer, "repos")
    if not told["repos"]:
        say("the server has no policy with repos; start it with: shiftboss serve --policy FILE")
        return
    # rich is for those who look at something.
    from shiftboss.cli.views.contract import halt_lines, repos_table

    show(repos_table(told["repos"], now()), *halt_lines(told["halts"], now()))


@repo.command("can-spawn")
def can_spawn(
    name: RepoName,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Say whether work on a repo may start now, and what is in the way; 1 if it may not."""
    answer = ask(server, token_file, "can_spawn", DEFAULT_SWARM, as_json=as_json, repo=name)
    told = parsed(answer, "can_spawn")
    if as_json:
        print_json(answer)
        if not told["can_spawn"]:
            raise typer.Exit(1)
        return
    if not told["can_spawn"]:
        raise _blocked(told)
    say(f"{told['repo']} can be worked on")


def _blocked(told: dict[str, Any]) -> CannotSpawn:
    return CannotSpawn(
        f"{told['repo']} cannot be worked on now: {told['reason']}",
        hint="shiftboss repo list shows who works where",
    )


@repo.command()
def release(
    name: RepoName,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; the event says it.")],
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    operator_token_file: OperatorTokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Release a repo whose work was not proven done (operator)."""
    said: dict[str, object] = {"repo": name, "reason": reason}
    places = OperatorPlaces(server, token_file, operator_token_file)
    answer = ask_as_operator(places, "release_repo", DEFAULT_SWARM, said, as_json=as_json)
    if as_json:
        print_json(answer)
        return
    changed = parsed(answer, "changed")["changed"]
    say(f"{name} is free" if changed else f"nobody had {name}; nothing was changed")
