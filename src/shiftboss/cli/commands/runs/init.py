"""shiftboss init: sets a repository up for agents, checks that, or undoes it."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

import typer

from shiftboss.agents.registry import BRANDS
from shiftboss.cli.common.command import Output, json_command
from shiftboss.cli.common.output import print_line, print_text
from shiftboss.defaults import ADDRESS, TOKEN_VARIABLE
from shiftboss.errors import InvalidRequest, ShiftbossError
from shiftboss.rules.documents.wording import pluralize

if TYPE_CHECKING:
    from shiftboss.agents.repository_settings import RepositoryServer
    from shiftboss.init.files import PlannedChange
    from shiftboss.init.setup import Proposal

_DONE: Final = {"create": "created", "change": "changed", "delete": "deleted"}


Folder = Annotated[
    Path,
    typer.Argument(
        metavar="[FOLDER]", help="The top of a repository. Default: the current folder."
    ),
]
Agents = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help=f"Set up this agent: {', '.join(BRANDS)}. Repeat it for several. Default: the "
        "agents that are set up, else Claude Code and the agents that have settings here.",
    ),
]
AllAgents = Annotated[bool, typer.Option("--all-agents", help="Set up all agents.")]
AgentsServer = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="The server that the agents use. Default: the one they are set up for, else "
        f"{ADDRESS}.",
    ),
]
AgentsTokenFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A file with the server's token (mode 600), outside of the repository. The token "
        "itself is written nowhere.",
    ),
]
Check = Annotated[
    bool,
    typer.Option(
        "--check", help="Change nothing; exit with 1 if something is missing or outdated."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing; show what would change.")]
Remove = Annotated[bool, typer.Option("--remove", help="Remove what init added.")]


class NotSetUp(ShiftbossError):
    code = "not_set_up"
    title = "The repository is not set up"


@json_command("Print it as JSON.")
def init(
    folder: Folder = Path(),
    agent: Agents = None,
    all_agents: AllAgents = False,
    server: AgentsServer = None,
    token_file: AgentsTokenFile = None,
    check: Check = False,
    dry_run: DryRun = False,
    remove: Remove = False,
) -> Output:
    """Set a repository up for agents.

    Writes shiftboss.yaml, the settings of agents, and a section of AGENTS.md and .gitignore.
    Existing content of these files is kept. Running it again changes nothing.
    """
    if check and remove:
        raise typer.BadParameter("--check and --remove exclude each other")
    if token_file is not None and server is None:
        raise typer.BadParameter("--token-file needs --server")
    agents = _agents(agent or [], all_agents=all_agents)
    named = None if server is None else _named_server(server, token_file, folder)
    proposal = _proposal(folder, agents, named, remove=remove)
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
        [] if named is None or remove else _notes(proposal.agents, named, server or ""),
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


def _named_server(server: str, token_file: Path | None, folder: Path) -> RepositoryServer:
    """The first, if there are several: MCP clients know one address."""
    from shiftboss.agents.repository_settings import RepositoryServer
    from shiftboss.client.addresses import checked_addresses
    from shiftboss.system.loopback import is_loopback

    address = checked_addresses(server)[0]
    is_local = is_loopback(urlsplit(address).hostname or "")
    return RepositoryServer(
        address,
        needs_token=token_file is not None or not is_local,
        token_file=None if token_file is None else _token_word(token_file, folder),
        is_chosen=True,
    )


def _token_word(token_file: Path, folder: Path) -> str:
    """The file as a word of shell; below $HOME, so that it fits all colleagues. Raises BadToken."""
    from shiftboss.system.token_files import read_token_file

    path = token_file.expanduser().absolute()
    read_token_file(path)
    if path.resolve().is_relative_to(folder.resolve()):
        raise InvalidRequest(
            f"{token_file} is inside of the repository, from where it could be committed",
            field="token_file",
            hint="move it to a folder of your own, for example ~/.config/shiftboss/token",
        )
    home = Path.home()
    if path.is_relative_to(home):
        return f'"$HOME"/{shlex.quote(str(path.relative_to(home)))}'
    return shlex.quote(str(path))


def _notes(agents: list[str], server: RepositoryServer, given: str) -> list[str]:
    from shiftboss.agents.registry import AGENTS

    notes = []
    if server.address != given.rstrip("/"):
        notes.append(f"the agents use {server.address}: an MCP client knows one address")
    by_file = server.token_file is not None
    by_variable = [kind for kind in agents if not (by_file and AGENTS[kind].reads_token_file)]
    if server.needs_token and by_variable:
        note = f"{', '.join(by_variable)}: set {TOKEN_VARIABLE} in the shell that starts them"
        if server.token_file is not None:
            note += f': export {TOKEN_VARIABLE}="$(head -n 1 {server.token_file})"'
        notes.append(note)
    return notes


def _proposal(
    folder: Path, agents: list[str], server: RepositoryServer | None, *, remove: bool
) -> Proposal:
    from shiftboss.init.project import check_is_repository
    from shiftboss.init.setup import propose, propose_removal

    check_is_repository(folder)
    return propose_removal(folder, agents) if remove else propose(folder, agents, server)


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
