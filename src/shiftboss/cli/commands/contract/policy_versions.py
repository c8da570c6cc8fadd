"""shiftboss policy apply, diff and history: the versions of the policy on the server."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from shiftboss.cli.common.client import parse_answer
from shiftboss.cli.common.command import Output, ServerSession, server_command
from shiftboss.cli.common.options import DEFAULT_SWARM
from shiftboss.cli.common.output import print_line
from shiftboss.errors import InvalidRequest, ShiftbossError
from shiftboss.rules.documents.wording import pluralize

if TYPE_CHECKING:
    from shiftboss.protocol.policy import Policy

# Repeated here: importing the module that reads it would take a tenth of a second.
DEFAULT_POLICY: Final = Path("shiftboss.yaml")

PolicyArgument = Annotated[Path, typer.Argument(metavar="FILE", help="Default: shiftboss.yaml.")]
VersionOption = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="A version of `shiftboss policy history`.")
]


class NotConfirmed(ShiftbossError):
    code = "not_confirmed"
    title = "Nothing was applied"


class UnreadablePolicy(ShiftbossError):
    code = "unreadable_policy"
    title = "The policy of the server cannot be read"


@server_command(operator=True)
def apply(
    session: ServerSession,
    file: PolicyArgument = DEFAULT_POLICY,
    yes: Annotated[bool, typer.Option("--yes", help="Apply it without asking.")] = False,
) -> Output:
    """Put a policy file in force on all servers, without a restart (operator).

    It shows what changes, and asks. If another version has been applied in the meantime, nothing is
    changed. Tasks that were spawned already keep their CI jobs.
    """
    from shiftboss.evidence.survey.policy_file import read_policy_text

    text = read_policy_text(file)
    view = show_version(session, None)
    # Without a server, a file that was never applied counts; for the history it is new.
    before = in_view(view if view["version"] else {"version": 0, "policy": {}})
    changes = _changes(before, load(file))
    if changes and not yes:
        _confirm(view, changes, file, as_json=session.as_json)
    answer = session.call_as_operator(
        "apply_policy",
        DEFAULT_SWARM,
        body=text.body,
        source=text.source,
        expected_version=view["version"],
    )
    members = parse_answer(answer, "version")
    return Output(answer, lambda: _show_applied(members), notes=members["warnings"])


def _confirm(view: dict[str, Any], changes: Sequence[str], file: Path, *, as_json: bool) -> None:
    if as_json or not sys.stdin.isatty():
        raise NotConfirmed(
            f"{file} has {pluralize(len(changes), 'change')} against version {view['version']}",
            hint="to look at them: shiftboss policy diff "
            f"{shlex.quote(str(file))}; to apply them, give --yes",
        )
    _print_lines(changes)
    if not typer.confirm("Put this in force on all servers?"):
        raise NotConfirmed(f"version {view['version']} stays in force")


def _show_applied(answer: dict[str, Any]) -> None:
    if not answer["changed"]:
        print_line(f"version {answer['version']} is in force already; nothing was changed")
        return
    _print_lines(answer["changes"])
    print_line(f"version {answer['version']} is in force")


@server_command(json_help="Print the changes as JSON.")
def diff(
    session: ServerSession,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="Default: shiftboss.yaml, unless versions are given."),
    ] = None,
    old: Annotated[
        int | None,
        typer.Option("--from", min=1, metavar="N", help="Default: the version in force."),
    ] = None,
    new: Annotated[
        int | None, typer.Option("--to", min=1, metavar="N", help="Compare with a version.")
    ] = None,
) -> Output:
    """Show what a policy file would change, or what differs between two versions.

    It compares what the files say: comments and the order of keys do not count.
    """
    if file is not None and new is not None:
        raise InvalidRequest("give a file or --to, not both", field="to")
    before = show_version(session, old)
    if new is not None:
        target, after = f"version {new}", in_view(show_version(session, new))
    else:
        file = file or DEFAULT_POLICY
        target, after = str(file), load(file)
    changes = _changes(in_view(before), after)
    source = f"version {before['version']}"
    return Output.of(
        {"from": before["version"], "to": target, "changes": changes},
        lambda: _show_changes(source, target, changes),
    )


def _show_changes(source: str, target: str, changes: Sequence[str]) -> None:
    if changes:
        _print_lines(changes)
    else:
        print_line(f"{target} says the same as {source}")


@server_command()
def history(
    session: ServerSession,
    limit: Annotated[int, typer.Option(min=1, max=200, metavar="N", help="How many.")] = 20,
    before: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Only versions below this one.")
    ] = None,
) -> Output:
    """List the versions of the policy, the newest first: when, by whom, from which file."""
    document = session.call("list_policies", None, limit=limit, before=before)
    answer = parse_answer(document, "versions")
    return Output(document, lambda: _show_history(answer))


def _show_history(answer: dict[str, Any]) -> None:
    if not answer["versions"]:
        print_line("no policy was ever applied here")
    for each in answer["versions"]:
        print_line(
            f"{each['version']:>4}  {each['applied_at']}  {each['applied_by']}  {each['source']}"
        )
    if answer["next_before"] is not None:
        print_line(f"older ones: shiftboss policy history --before {answer['next_before']}")


def show_version(session: ServerSession, version: int | None) -> dict[str, Any]:
    """The policy in force, or an older version."""
    document = session.call("show_policy", None, version=version)
    return parse_answer(document, "policy")


def in_view(view: dict[str, Any]) -> Policy:
    """The policy that the server has answered with."""
    from pydantic import ValidationError

    from shiftboss.protocol.policy import Policy

    try:
        return Policy.model_validate(view["policy"])
    except ValidationError as error:
        raise UnreadablePolicy(
            f"version {view['version']} of the policy has keys that this command does not know",
            hint="use the version of shiftboss that the server has",
        ) from error


def load(file: Path) -> Policy:
    # Imported late: it needs pydantic and YAML.
    from shiftboss.evidence.survey.policy_file import load_policy

    return load_policy(file)


def _changes(before: Policy, after: Policy) -> list[str]:
    from shiftboss.rules.contract.policy_changes import policy_changes

    return [str(change) for change in policy_changes(before, after)]


def _print_lines(lines: Sequence[str]) -> None:
    for line in lines:
        print_line(line)
