"""The options of `shiftboss handoff spawn`, and which repository is meant."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from shiftboss.cli.common.client import parse_answer
from shiftboss.cli.common.command import ServerSession
from shiftboss.cli.common.options import DEFAULT_SWARM
from shiftboss.errors import ShiftbossError
from shiftboss.rules.paths.repo_urls import is_url

_REPEATABLE = "May be repeated."

Title = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="The subject; required if the task is new."),
]
Files = Annotated[
    list[str] | None,
    typer.Option(metavar="PATH", help=f"A file, folder or glob that the task owns. {_REPEATABLE}"),
]
OnlyReads = Annotated[
    bool, typer.Option("--read-only", help="The task owns no files and must not change any.")
]
Description = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="The work to do. `Tests pass: CMD` becomes a criterion."),
]
DescriptionFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The description, from a file.")
]
DependsOn = Annotated[
    list[str] | None,
    typer.Option(metavar="TASK", help=f"A task that is already done. {_REPEATABLE}"),
]
Repo = Annotated[
    str | None,
    typer.Option(
        metavar="DIR|NAME",
        help="A repository, or the name of a repo of the server's policy, which is then locked for "
        "the task. Default: the repository of the current folder.",
    ),
]
Base = Annotated[
    str | None, typer.Option(metavar="REV", help="The commit to start from. Default: HEAD.")
]
Branch = Annotated[
    str | None,
    typer.Option(
        metavar="BRANCH", help="The branch of the work. Default: the one that is checked out."
    ),
]
Target = Annotated[
    str | None,
    typer.Option(metavar="BRANCH", help="The branch to land on; merges from it are not checked."),
]


class LandingKind(StrEnum):
    MERGE = "merge"
    SQUASH = "squash"


class ReviewKind(StrEnum):
    NONE = "none"
    REQUIRED = "required"


class SandboxKind(StrEnum):
    AUTO = "auto"
    REQUIRED = "required"
    OFF = "off"


class NetworkKind(StrEnum):
    NONE = "none"
    SETUP = "setup"
    ALL = "all"


LandingOption = Annotated[
    LandingKind,
    typer.Option("--landing", help="How accepted work lands: as it is, or as one commit."),
]
ReviewOption = Annotated[
    ReviewKind,
    typer.Option("--review", help="Whether the operator has to approve the work before it lands."),
]
StrategyName = Annotated[
    str | None, typer.Option(metavar="NAME", help="The strategy that split the goal.")
]
Criterion = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TEXT",
        help=f"Such as `Tests pass: CMD`; replaces the generated criteria. {_REPEATABLE}",
    ),
]
Readonly = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATH",
        help=f"Must not change; replaces the files that the owned files import. {_REPEATABLE}",
    ),
]
Generated = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATTERN",
        help=f"May change besides the owned files, such as uv.lock. {_REPEATABLE}",
    ),
]
ExpectationsChange = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATTERN",
        help=f"Test files of the base whose expectations the task changes. {_REPEATABLE}",
    ),
]
Setup = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CMD", help=f"Prepares the clean checkout, such as `npm ci`. {_REPEATABLE}"
    ),
]
HeldOut = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATH=FILE",
        help="A test that the worker does not see: its path in the checkout, and the file with its "
        f"content. Only for the operator. {_REPEATABLE}",
    ),
]
HeldOutCriterion = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT", help="Runs the held-out tests, such as `Tests pass: pytest tests/hidden`."
    ),
]
SandboxOption = Annotated[
    SandboxKind,
    typer.Option("--sandbox", help="Whether setup and criteria run in a sandbox."),
]
NetworkOption = Annotated[
    NetworkKind,
    typer.Option("--network", help="Which commands may use the network in the sandbox."),
]
Trait = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TRAIT",
        help="high_complexity, critical_path, security_sensitive or cross_repo; decides which "
        f"model does the task. {_REPEATABLE}",
    ),
]
Submit = Annotated[
    bool, typer.Option("--submit", help="Also assign the task to a worker, or queue it.")
]
Replace = Annotated[
    bool,
    typer.Option("--replace", help="Replace an existing contract with a new version (operator)."),
]
OnlyPrompt = Annotated[bool, typer.Option("--prompt", help="Print only the prompt of the worker.")]


# Names that a policy allows; `./alphavm` can only be a folder.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class BadFiles(ShiftbossError):
    code = "bad_files"
    title = "The files cannot be used"


def owned_files(files: list[str] | None, *, only_reads: bool) -> list[str]:
    """A task that owns nothing has to be asked for, because it is usually a mistake."""
    if bool(files) == only_reads:
        problem = "not both" if only_reads else "the task owns no files otherwise"
        raise BadFiles(
            f"give --files or --read-only: {problem}",
            hint="name the files that the task may change, such as `--files src/auth/`",
        )
    return files or []


def held_out_tests(files: list[str] | None, criterion: str | None) -> dict[str, object] | None:
    """The member of the request. The server checks the paths and the criterion."""
    if not files:
        if criterion is not None:
            raise BadFiles(
                "--held-out-criterion needs the tests that it runs",
                hint="name each one, such as `--held-out tests/test_more.py=../test_more.py`",
            )
        return None
    return {"files": dict(map(_held_out_file, files)), "criterion": criterion}


def _held_out_file(text: str) -> tuple[str, str]:
    path, equals, file = text.partition("=")
    if not (path and equals and file):
        raise BadFiles(
            f"--held-out {text}: must be a path in the checkout, =, and a file",
            hint="such as `--held-out tests/test_more.py=../test_more.py`",
        )
    try:
        return path, Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise BadFiles(f"--held-out: cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadFiles(f"--held-out: {file} is not UTF-8 text") from error


def resolve_repo(session: ServerSession, repo: str | None) -> str | None:
    """The name of a repo of the policy, or the path of a repository: that of the current folder by
    default. None, which means the server's own repository, if there is none here."""
    if repo is None:
        here = Path.cwd()
        folders = (here, *here.parents)
        return next((str(folder) for folder in folders if (folder / ".git").exists()), None)
    if _NAME.fullmatch(repo) and repo in _policy_repos(session):
        return repo
    return repo if is_url(repo) else str(Path(repo).resolve())


def _policy_repos(session: ServerSession) -> set[str]:
    answer = session.call("list_repos", DEFAULT_SWARM)
    return {repo["repo"] for repo in parse_answer(answer, "repos")["repos"]}
