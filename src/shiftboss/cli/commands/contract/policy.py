"""shiftboss policy: checks, shows and applies policies, and prints their JSON Schema."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from shiftboss.cli.commands.contract.policy_versions import (
    DEFAULT_POLICY,
    PolicyArgument,
    VersionOption,
    apply,
    diff,
    history,
    in_view,
    load,
    show_version,
)
from shiftboss.cli.common.command import Output, ServerSession, json_command, server_command
from shiftboss.cli.common.output import print_json, print_line, print_text
from shiftboss.errors import InvalidPolicy, ShiftbossError
from shiftboss.rules.documents.wording import pluralize

if TYPE_CHECKING:
    from shiftboss.protocol.policy import Policy

_KEPT_JOBS: Final = (
    "to put it in force: shiftboss policy apply {file}; tasks that are spawned already keep their "
    "CI jobs, until their contract is replaced"
)

policy = typer.Typer(help="Check, show and apply policies.", no_args_is_help=True)
for command in (apply, diff, history):
    policy.command()(command)


class BadPolicy(ShiftbossError):
    code = "bad_policy"
    title = "The policy cannot be used"


@policy.command()
@json_command("Print it as JSON.")
def check(file: PolicyArgument = DEFAULT_POLICY) -> Output:
    """Check a policy file, and list every problem with its line, key and reason."""
    try:
        loaded = load(file)
        _check_repositories(file, loaded)
    except InvalidPolicy as error:
        problems = _problems(error)
        bad = BadPolicy(f"{file} has {pluralize(len(problems), 'problem')}")
        answer = {"file": str(file), "problems": problems}
        return Output.of(answer, lambda: _say_all(problems), bad)
    from shiftboss.rules.contract.repo_graph import RepoGraph

    phases = RepoGraph({name: repo.depends_on for name, repo in loaded.repos.items()}).phases()
    return Output.of(
        {"file": str(file), "problems": [], "phases": phases},
        lambda: _show_check(file, loaded, phases),
    )


def _show_check(file: Path, loaded: Policy, phases: list[list[str]]) -> None:
    print_line(f"{file} is valid: {pluralize(len(loaded.repos), 'repo')}, locking {loaded.locking}")
    for number, names in enumerate(phases, start=1):
        print_line(f"phase {number}: {', '.join(names)}")
    if loaded.repos:
        print_line(_KEPT_JOBS.format(file=shlex.quote(str(file))))


def _check_repositories(file: Path, loaded: Policy) -> None:
    import asyncio

    from shiftboss.evidence.survey.policy_file import check_repositories

    asyncio.run(check_repositories(file, loaded))


def _problems(error: InvalidPolicy) -> list[str]:
    """All problems of a file that could be read; else why it could not."""
    problems = error.facts.get("problems")
    return [str(problem) for problem in problems] if isinstance(problems, list) else [error.detail]


def _say_all(lines: list[str]) -> None:
    for line in lines:
        print_line(line)


@policy.command("show")
@server_command()
def show_policy(
    session: ServerSession,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="Show this file instead, as it is understood."),
    ] = None,
    version: VersionOption = None,
    effective: Annotated[
        bool, typer.Option("--effective", help="Show every value in force, with the defaults.")
    ] = False,
) -> Output:
    """Show the policy in force on the server, or an older version, or a file.

    Where there is no server and no database, it shows the shiftboss.yaml of this folder.
    """
    if file is None and version is None and not session.is_placed and DEFAULT_POLICY.is_file():
        file = DEFAULT_POLICY
    if file is not None:
        loaded = load(file)
        document = loaded.model_dump_json(exclude_unset=not effective).encode()
        values = loaded.model_dump(mode="json", exclude_unset=not effective)
        return Output(document, lambda: _show_yaml(values))
    view = show_version(session, version)
    return Output.of(view, lambda: _show_version(view, effective=effective))


def _show_version(view: dict[str, Any], *, effective: bool) -> None:
    """As a policy file."""
    if not view["version"]:
        print_line("# no policy was ever applied here")
    else:
        state = "in force" if view["is_in_force"] else "not in force"
        print_line(
            f"# version {view['version']}, {state}, applied at {view['applied_at']} by "
            f"{view['applied_by']} from {view['source']}"
        )
    if effective or not view["body"]:
        loaded = in_view(view)
        _show_yaml(loaded.model_dump(mode="json", exclude_unset=not effective))
    else:
        print_text(view["body"])


def _show_yaml(values: dict[str, Any]) -> None:
    import yaml

    print_text(yaml.safe_dump(values, sort_keys=False, allow_unicode=True))


@policy.command()
def schema() -> None:
    """Print the JSON Schema of policy files, for editors."""
    from shiftboss.protocol.policy import policy_schema  # imported late: it needs pydantic

    print_json(json.dumps(policy_schema(), indent=2).encode())
