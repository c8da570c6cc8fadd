"""shiftboss init: set a repository up for agents, see whether it is, or undo it."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from shiftboss.agents.registry import BRANDS
from shiftboss.cli.common.output import print_json, print_text, say
from shiftboss.errors import InvalidRequest, ShiftbossError
from shiftboss.rules.documents.wording import how_many

if TYPE_CHECKING:
    from shiftboss.init.files import Change
    from shiftboss.init.setup import Proposal

_DONE: Final = {"create": "created", "change": "changed", "delete": "deleted"}


class NotSetUp(ShiftbossError):
    code = "not_set_up"
    title = "The repository is not set up"


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="[FOLDER]", help="The top of a repository; this one.")
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
        bool, typer.Option("--check", help="Change nothing; 1 if something is missing or old.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing; show what would be changed.")
    ] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Take out what init has added.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Write shiftboss.yaml, settings of agents, and a part of AGENTS.md and .gitignore.

    What is in these files already stays as it is. Run again, it changes nothing.
    """
    if check and remove:
        raise typer.BadParameter("--check looks for what --remove takes out: choose one of them")
    proposal = _proposal(folder, _agents(agent or [], all_agents=all_agents), remove=remove)
    is_done = not (check or dry_run)
    if is_done:
        from shiftboss.init.files import apply

        apply(proposal.changes, folder.resolve())
    if as_json:
        print_json(json.dumps(_as_json(folder, proposal, is_done=is_done)).encode())
    elif dry_run:
        print_text(
            "".join(line for one in proposal.changes for line in _diff(one)) or "nothing to do\n"
        )
    else:
        _tell(proposal, is_done=is_done)
    if check and proposal.changes:
        if as_json:
            raise typer.Exit(1)
        count = how_many(len(proposal.changes), "file")
        raise NotSetUp(f"{count} to be written", hint="`shiftboss init` does it")


def _agents(asked: list[str], *, all_agents: bool) -> list[str]:
    from shiftboss.rules.documents.wording import did_you_mean

    for name in asked:
        if name not in BRANDS:
            raise InvalidRequest(
                f"there is no agent {name!r}{did_you_mean(name, BRANDS)}",
                field="agent",
                hint=f"known are {', '.join(BRANDS)}",
            )
    return list(BRANDS) if all_agents else asked


def _proposal(folder: Path, agents: list[str], *, remove: bool) -> Proposal:
    # Only this command pays for the imports.
    from shiftboss.init.project import check_is_repository
    from shiftboss.init.setup import propose, propose_removal

    check_is_repository(folder)
    return propose_removal(folder, agents) if remove else propose(folder, agents)


def _as_json(folder: Path, proposal: Proposal, *, is_done: bool) -> dict[str, object]:
    return {
        "folder": str(folder.resolve()),
        "agents": proposal.agents,
        "done": is_done,
        "changes": [{"file": one.name, "action": one.action} for one in proposal.changes],
        "left": proposal.left,
    }


def _tell(proposal: Proposal, *, is_done: bool) -> None:
    for one in proposal.changes:
        say(f"{_DONE[one.action] if is_done else f'to {one.action}'} {one.name}")
    for name in proposal.left:
        say(f"left {name}: it was changed since, or `shiftboss init` did not write it")
    if not proposal.changes:
        say("nothing to do")


def _diff(change: Change) -> Iterator[str]:
    before, after = (_lines(content) for content in (change.before, change.after))
    names = (
        "/dev/null" if change.before is None else f"a/{change.name}",
        "/dev/null" if change.after is None else f"b/{change.name}",
    )
    for line in difflib.unified_diff(before, after, *names):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _lines(content: bytes | None) -> list[str]:
    return (content or b"").decode(errors="replace").splitlines(keepends=True)
