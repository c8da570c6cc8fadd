"""shiftboss policy: check a policy file, show it, say what it may hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from shiftboss.cli.common.output import print_json, print_text, say
from shiftboss.errors import InvalidPolicy, ShiftbossError
from shiftboss.rules.documents.wording import how_many

if TYPE_CHECKING:
    from shiftboss.protocol.policy import Policy

# Said again here: the module that reads it costs an everyday command a tenth of a second.
DEFAULT_POLICY: Final = Path("shiftboss.yaml")

policy = typer.Typer(help="Check and show policy files.", no_args_is_help=True)

PolicyFile = Annotated[Path, typer.Argument(metavar="FILE", help="shiftboss.yaml if left out.")]
Said = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]


class BadPolicy(ShiftbossError):
    code = "bad_policy"
    title = "The policy cannot be used"


@policy.command()
def check(file: PolicyFile = DEFAULT_POLICY, as_json: Said = False) -> None:
    """Say everything that is wrong with a policy file: its line, its key, and why."""
    try:
        found = _load(file)
        _look_at_repositories(file, found)
    except InvalidPolicy as error:
        raise _told(file, _problems(error), as_json=as_json) from None
    # Only this command needs the graph.
    from shiftboss.rules.contract.repo_graph import RepoGraph

    phases = RepoGraph({name: repo.depends_on for name, repo in found.repos.items()}).phases()
    if as_json:
        print_json(json.dumps({"file": str(file), "problems": [], "phases": phases}).encode())
        return
    say(f"{file} is good: {how_many(len(found.repos), 'repo')}, locking {found.locking}")
    for number, names in enumerate(phases, start=1):
        say(f"phase {number}: {', '.join(names)}")


def _look_at_repositories(file: Path, found: Policy) -> None:
    import asyncio

    from shiftboss.evidence.survey.policy_file import check_repositories

    asyncio.run(check_repositories(file, found))


def _problems(error: InvalidPolicy) -> list[str]:
    """All of a file that was read; of one that cannot be read, why."""
    found = error.facts.get("problems")
    return [str(one) for one in found] if isinstance(found, list) else [error.detail]


def _told(file: Path, problems: list[str], *, as_json: bool) -> Exception:
    if as_json:
        print_json(json.dumps({"file": str(file), "problems": problems}).encode())
        return typer.Exit(1)
    for one in problems:
        say(one)
    return BadPolicy(f"{file} has {how_many(len(problems), 'problem')}")


@policy.command("show")
def show_policy(
    file: PolicyFile = DEFAULT_POLICY,
    effective: Annotated[
        bool, typer.Option("--effective", help="Every value in force, the preset's as well.")
    ] = False,
    as_json: Said = False,
) -> None:
    """Print a policy as it is understood: what the file says, or every value in force."""
    found = _load(file)
    if as_json:
        print_json(found.model_dump_json(exclude_unset=not effective).encode())
        return
    # YAML is for those who read it.
    import yaml

    said = found.model_dump(mode="json", exclude_unset=not effective)
    print_text(yaml.safe_dump(said, sort_keys=False, allow_unicode=True))


@policy.command()
def schema() -> None:
    """Print the JSON Schema of policy files, for editors."""
    from shiftboss.protocol.policy import policy_schema  # pydantic, which few commands need

    print_json(json.dumps(policy_schema(), indent=2).encode())


def _load(file: Path) -> Policy:
    # Only these commands pay for pydantic and YAML.
    from shiftboss.evidence.survey.policy_file import load_policy

    return load_policy(file)
