"""shiftboss repo: the repos of the policy, who works on them, and the release of a lock."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from shiftboss.cli.common.client import parse_answer
from shiftboss.cli.common.command import Output, ServerSession, server_command
from shiftboss.cli.common.options import DEFAULT_SWARM
from shiftboss.cli.common.output import print_line, show
from shiftboss.cli.common.times import now
from shiftboss.errors import ShiftbossError

repo = typer.Typer(help="List the repos of the policy, and release them.", no_args_is_help=True)

RepoName = Annotated[str, typer.Argument(metavar="NAME", help="A repo of the policy.")]


class CannotSpawn(ShiftbossError):
    code = "cannot_spawn"
    title = "The repo cannot be worked on now"


@repo.command("list")
@server_command()
def list_repos(session: ServerSession) -> Output:
    """List the repos by phase, with their locks, their CI state and halts."""
    answer = session.call("list_repos", None)
    return Output(answer, lambda: _show_repos(parse_answer(answer, "repos")))


def _show_repos(answer: dict[str, Any]) -> None:
    if not answer["repos"]:
        print_line(
            "the server has no policy with repos; write one, and put it in force: "
            "shiftboss policy apply shiftboss.yaml"
        )
        return
    from shiftboss.cli.views.contract import halt_lines, repos_table

    show(repos_table(answer["repos"], now()), *halt_lines(answer["halts"], now()))


@repo.command("can-spawn")
@server_command()
def can_spawn(session: ServerSession, name: RepoName) -> Output:
    """Check whether work on a repo may start now.

    If not, it prints the reason and exits with 1.
    """
    document = session.call("can_spawn", None, repo=name)
    answer = parse_answer(document, "can_spawn")
    if answer["can_spawn"]:
        return Output(document, lambda: print_line(f"work on {answer['repo']} may start"))
    blocked = CannotSpawn(
        f"work on {answer['repo']} may not start now: {answer['reason']}",
        hint="shiftboss repo list shows which task holds which repo",
    )
    return Output(document, error=blocked)


@repo.command()
@server_command(operator=True)
def release(
    session: ServerSession,
    name: RepoName,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; recorded in the event.")],
) -> Output:
    """Release the lock on a repo whose work was not proven done (operator)."""
    answer = session.call_as_operator("release_repo", DEFAULT_SWARM, repo=name, reason=reason)

    def view() -> None:
        changed = parse_answer(answer, "changed")["changed"]
        print_line(f"released {name}" if changed else f"{name} was not locked; nothing was changed")

    return Output(answer, view)
