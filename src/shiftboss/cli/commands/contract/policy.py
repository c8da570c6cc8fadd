"""shiftboss policy: checks and shows policy files, and prints their JSON Schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from shiftboss.cli.common.command import Output, json_command
from shiftboss.cli.common.output import print_json, print_line, print_text
from shiftboss.errors import InvalidPolicy, ShiftbossError
from shiftboss.rules.documents.wording import pluralize

if TYPE_CHECKING:
    from shiftboss.protocol.policy import Policy

# Repeated here: importing the module that reads it would take a tenth of a second.
DEFAULT_POLICY: Final = Path("shiftboss.yaml")

_KEPT_JOBS: Final = (
    "a server reads it when it starts; tasks that are spawned already keep their CI jobs, "
    "until their contract is replaced"
)

policy = typer.Typer(help="Check and show policy files.", no_args_is_help=True)

PolicyFile = Annotated[Path, typer.Argument(metavar="FILE", help="Default: shiftboss.yaml.")]


class BadPolicy(ShiftbossError):
    code = "bad_policy"
    title = "The policy cannot be used"


@policy.command()
@json_command("Print it as JSON.")
def check(file: PolicyFile = DEFAULT_POLICY) -> Output:
    """Check a policy file, and list every problem with its line, key and reason."""
    try:
        loaded = _load(file)
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
        print_line(_KEPT_JOBS)


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
@json_command("Print it as JSON.")
def show_policy(
    file: PolicyFile = DEFAULT_POLICY,
    effective: Annotated[
        bool, typer.Option("--effective", help="Show every value in force, with the defaults.")
    ] = False,
) -> Output:
    """Show a policy file as it is understood."""
    loaded = _load(file)
    document = loaded.model_dump_json(exclude_unset=not effective).encode()
    values = loaded.model_dump(mode="json", exclude_unset=not effective)
    return Output(document, lambda: _show_yaml(values))


def _show_yaml(values: dict[str, Any]) -> None:
    import yaml

    print_text(yaml.safe_dump(values, sort_keys=False, allow_unicode=True))


@policy.command()
def schema() -> None:
    """Print the JSON Schema of policy files, for editors."""
    from shiftboss.protocol.policy import policy_schema  # imported late: it needs pydantic

    print_json(json.dumps(policy_schema(), indent=2).encode())


def _load(file: Path) -> Policy:
    # Imported late: it needs pydantic and YAML.
    from shiftboss.evidence.survey.policy_file import load_policy

    return load_policy(file)
