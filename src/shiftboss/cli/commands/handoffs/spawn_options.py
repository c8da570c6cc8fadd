"""The options of `shiftboss handoff spawn`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final

import typer

from shiftboss.cli.common.bus_calls import ask
from shiftboss.cli.common.client import parsed
from shiftboss.cli.common.options import DEFAULT_SWARM

_AGAIN = "May be given again."

Title = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="What it is about; needed when the task is new."),
]
Files = Annotated[
    list[str],
    typer.Option(metavar="PATH", help=f"A file, folder or glob that the task owns. {_AGAIN}"),
]
Description = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="What is to be done. `Tests pass: CMD` is a criterion."),
]
DescriptionFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The same, from a file.")
]
DependsOn = Annotated[
    list[str] | None, typer.Option(metavar="ID", help=f"A task that is done. {_AGAIN}")
]
Repo = Annotated[
    str | None,
    typer.Option(
        metavar="DIR|NAME",
        help="The repository, or the name of a repo of the server's policy, which is locked for "
        "the task; the repository around here if left out.",
    ),
]
Base = Annotated[
    str | None, typer.Option(metavar="REV", help="Where the work begins; HEAD if left out.")
]
Branch = Annotated[
    str | None,
    typer.Option(metavar="B", help="The branch of the work; the one that is checked out."),
]
Target = Annotated[
    str | None,
    typer.Option(metavar="B", help="Where the work will land; merges from there are not judged."),
]
StrategyName = Annotated[
    str | None, typer.Option(metavar="S", help="The strategy that the goal was cut with.")
]
Criterion = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TEXT",
        help=f"`Tests pass: CMD` and the like, in place of the generated ones. {_AGAIN}",
    ),
]
Readonly = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATH",
        help=f"What must stay as it is, in place of what the owned files import. {_AGAIN}",
    ),
]
Generated = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATTERN", help=f"May change beside the owned files, such as uv.lock. {_AGAIN}"
    ),
]
Setup = Annotated[
    list[str] | None,
    typer.Option(metavar="CMD", help=f"Prepares the clean checkout, such as `npm ci`. {_AGAIN}"),
]
Trait = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TRAIT",
        help="high_complexity, critical_path, security_sensitive or cross_repo: which model should "
        f"do it depends on that. {_AGAIN}",
    ),
]
Submit = Annotated[bool, typer.Option("--submit", help="Hand it to a worker, or queue it.")]
Replace = Annotated[
    bool, typer.Option("--replace", help="A new version of a contract that is there (operator).")
]
OnlyPrompt = Annotated[bool, typer.Option("--prompt", help="Print the worker's prompt alone.")]


# Which repository is meant: a folder, or a repo of the server's policy by its name.


# What can be a name in a policy; `./alphavm` is the folder and nothing else.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def named_repo(
    given: str | None, server: str, token_file: Path | None, *, as_json: bool
) -> str | None:
    """The name as it is, a folder in full. None, which means the server's own, when there is no
    repository around here."""
    if given is None:
        here = Path.cwd()
        return next((str(one) for one in (here, *here.parents) if (one / ".git").exists()), None)
    if _NAME.fullmatch(given) and given in _in_policy(server, token_file, as_json=as_json):
        return given
    return str(Path(given).resolve())


def _in_policy(server: str, token_file: Path | None, *, as_json: bool) -> set[str]:
    answer = ask(server, token_file, "list_repos", DEFAULT_SWARM, as_json=as_json)
    return {one["repo"] for one in parsed(answer, "repos")["repos"]}
