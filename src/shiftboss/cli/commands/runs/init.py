"""shiftboss init: sets a repository up for agents, checks that, or undoes it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from shiftboss.agents.registry import BRANDS
from shiftboss.cli.common.command import Output, json_command
from shiftboss.cli.common.output import print_line, print_text
from shiftboss.errors import InvalidRequest, ShiftbossError
from shiftboss.rules.documents.wording import pluralize

if TYPE_CHECKING:
    from shiftboss.init.files import PlannedChange
    from shiftboss.init.setup import Proposal

_DONE: Final = {"create": "created", "change": "changed", "delete": "deleted"}


class NotSetUp(ShiftbossError):
    code = "not_set_up"
    title = "The repository is not set up"


@json_command("Print it as JSON.")
def init(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="[FOLDER]", help="The top of a repository. Default: the current folder."
        ),
    ] = Path(),
    agent: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help=f"Set up this agent: {', '.join(BRANDS)}. Repeat it for several. Default: the "
            "agents that are set up, else Claude Code and the agents that have settings here.",
        ),
    ] = None,
    all_agents: Annotated[bool, typer.Option("--all-agents", help="Set up all agents.")] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Change nothing; exit with 1 if something is missing or outdated."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing; show what would change.")
    ] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove what init added.")] = False,
) -> Output:
    """Set a repository up for agents.

    Writes shiftboss.yaml, the settings of agents, and a section of AGENTS.md and .gitignore. What
    is already in these files stays as it is. Running it again changes nothing.
    """
    if check and remove:
        raise typer.BadParameter("--check and --remove exclude each other")
    proposal = _proposal(folder, _agents(agent or [], all_agents=all_agents), remove=remove)
    is_done = not (check or dry_run)
    if is_done:
        from shiftboss.init.files import apply

        apply(proposal.changes, folder.resolve())
    missing = None
    if check and proposal.changes:
        count = pluralize(len(proposal.changes), "file")
        missing = NotSetUp(f"{count} must be written", hint="run: shiftboss init")
    return Output.of(
        _as_json(folder, proposal, is_done=is_done),
        lambda: _show_diff(proposal) if dry_run else _show_changes(proposal, is_done=is_done),
        missing,
    )


def _agents(names: list[str], *, all_agents: bool) -> list[str]:
    from shiftboss.rules.documents.wording import did_you_mean

    for name in names:
        if name not in BRANDS:
            raise InvalidRequest(
                f"unknown agent {name!r}{did_you_mean(name, BRANDS)}",
                field="agent",
                hint=f"known agents: {', '.join(BRANDS)}",
            )
    return list(BRANDS) if all_agents else names


def _proposal(folder: Path, agents: list[str], *, remove: bool) -> Proposal:
    from shiftboss.init.project import check_is_repository
    from shiftboss.init.setup import propose, propose_removal

    check_is_repository(folder)
    return propose_removal(folder, agents) if remove else propose(folder, agents)


def _as_json(folder: Path, proposal: Proposal, *, is_done: bool) -> dict[str, object]:
    return {
        "folder": str(folder.resolve()),
        "agents": proposal.agents,
        "done": is_done,
        "changes": [{"file": change.name, "action": change.action} for change in proposal.changes],
        "left": proposal.left,
    }


def _show_changes(proposal: Proposal, *, is_done: bool) -> None:
    for change in proposal.changes:
        print_line(f"{_DONE[change.action] if is_done else f'to {change.action}'} {change.name}")
    for name in proposal.left:
        print_line(f"left {name}: it was changed since, or `shiftboss init` did not write it")
    if not proposal.changes:
        print_line("nothing to do")


def _show_diff(proposal: Proposal) -> None:
    lines = [line for change in proposal.changes for line in _diff(change)]
    print_text("".join(lines) or "nothing to do\n")


def _diff(change: PlannedChange) -> Iterator[str]:
    before, after = (_lines(content) for content in (change.before, change.after))
    names = (
        "/dev/null" if change.before is None else f"a/{change.name}",
        "/dev/null" if change.after is None else f"b/{change.name}",
    )
    for line in difflib.unified_diff(before, after, *names):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _lines(content: bytes | None) -> list[str]:
    return (content or b"").decode(errors="replace").splitlines(keepends=True)
