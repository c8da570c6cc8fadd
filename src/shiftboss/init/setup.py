"""The changes of `shiftboss init` in a repository, file by file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from shiftboss.agents.registry import AGENTS, brands
from shiftboss.agents.repository_settings import RepositoryServer
from shiftboss.defaults import DEFAULT_AGENT
from shiftboss.errors import InvalidRequest
from shiftboss.init.files import PlannedChange, read_if_there
from shiftboss.init.project import COMMENT, draft_for
from shiftboss.rules.documents.file_edits import BlockFile, CannotMerge, FileEdit, WholeFile
from shiftboss.rules.documents.text_blocks import HTML

# The section of AGENTS.md about working under a contract.
LINES: Final = (
    "## Working under Shiftboss",
    "",
    "This section applies if Shiftboss gave you a task: your prompt says so, or SHIFTBOSS_TASK is",
    "set. Otherwise ignore it.",
    "",
    "- Change only the files of your contract. If you need another file, call `request_scope` with",
    "  the path and the reason, and wait for the grant. Do not work around a refusal.",
    "- Work in the work tree that you were started in, on its branch. Do not create branches, do",
    "  not force-push, and do not use `--no-verify`.",
    "- Keep the tests: do not remove, skip or weaken them.",
    "- Commit your work, then call `swarm_complete`. The server verifies it and answers with a",
    "  receipt, or with every reason why it is not accepted. Fix those and call it again.",
    "- If the contract is wrong or cannot be met, say so with `dispute_contract` (or `shiftboss",
    "  dispute`) and what shows it. That is not a failure, and better than work that pretends.",
    "- If you cannot continue, report BLOCKED with `report_milestone` and say why. Do not guess,",
    "  and do not claim anything that is not true.",
)


_BYTE_ORDER_MARK: Final = "\ufeff"
_IGNORE_LINES: Final = frozenset((".shiftboss", ".shiftboss/", "/.shiftboss", "/.shiftboss/"))


class Proposal(NamedTuple):
    """`left` are files that a removal keeps, because they were changed since."""

    agents: list[str]
    changes: list[PlannedChange]
    left: list[str]


def propose(
    folder: Path, asked: Collection[str] = (), server: RepositoryServer | None = None
) -> Proposal:
    """Everything that is missing. `server` is the one that the agents are to use; without it they
    stay with the one they have. Raises InvalidRequest for a file that cannot be changed."""
    files = _RepositoryFiles(folder)
    chosen = _choose_agents(folder, files, asked)
    edits = _common_edits(lambda: draft_for(folder)), _agent_edits(folder, chosen, server)
    for edit in chain(*edits):
        _apply_edit(files, edit, edit.with_ours)
    return Proposal(chosen, files.changes(), [])


def propose_removal(folder: Path, asked: Collection[str] = ()) -> Proposal:
    """Everything that init has added, or only the settings of some agents."""
    files = _RepositoryFiles(folder)
    chosen = [agent.kind for agent in brands() if not asked or agent.kind in asked]
    # A removal creates no policy, so it needs no draft of one.
    common = [] if asked else _common_edits(str)
    left = []
    for edit in [*common, *_agent_edits(folder, chosen)]:
        if files.text(edit.name) is None:
            continue
        _apply_edit(files, edit, _removal(edit))
        rest = files.text(edit.name)
        if rest is not None and edit.is_left(rest.removeprefix(_BYTE_ORDER_MARK)):
            left.append(edit.name)
    return Proposal(chosen, files.changes(), left)


class _RepositoryFiles:
    """The files as they are, and as they would be. Two names may lead to one file."""

    def __init__(self, folder: Path) -> None:
        self._top = folder.resolve()
        self._before: dict[Path, bytes | None] = {}
        self._after: dict[Path, bytes | None] = {}
        self._names: dict[Path, str] = {}

    def text(self, name: str) -> str | None:
        path = self._path(name)
        if path not in self._after:
            self._before[path] = self._after[path] = read_if_there(path, name)
            self._names[path] = name
        content = self._after[path]
        try:
            return None if content is None else content.decode()
        except UnicodeDecodeError as error:
            raise InvalidRequest(
                f"{name} is not UTF-8: {error.reason}",
                field=name,
                hint="convert the file to UTF-8; nothing was changed",
            ) from error

    def set(self, name: str, text: str | None) -> None:
        self._after[self._path(name)] = None if text is None else text.encode()

    def _path(self, name: str) -> Path:
        """Links are followed as long as they stay inside the repository."""
        path = (self._top / name).resolve()
        if not path.is_relative_to(self._top):
            raise InvalidRequest(
                f"a link leads {name} out of the repository, to {path}",
                field=name,
                hint="replace the link by a file or folder; nothing was changed",
            )
        return path

    def changes(self) -> list[PlannedChange]:
        return [
            PlannedChange(self._names[path], path, before, self._after[path])
            for path, before in self._before.items()
            if before != self._after[path]
        ]


def _removal(edit: FileEdit) -> Callable[[str | None], str | None]:
    return lambda text: None if text is None else edit.without_ours(text)


def _apply_edit(
    files: _RepositoryFiles, edit: FileEdit, change: Callable[[str | None], str | None]
) -> None:
    text = files.text(edit.name)
    mark = _BYTE_ORDER_MARK if text is not None and text.startswith(_BYTE_ORDER_MARK) else ""
    try:
        changed = change(None if text is None else text.removeprefix(mark))
    except CannotMerge as error:
        place = edit.name if error.line is None else f"{edit.name}:{error.line}"
        hint = "; ".join(filter(None, [error.by_hand, "nothing was changed"]))
        raise InvalidRequest(f"{place}: {error.reason}", field=edit.name, hint=hint) from error
    files.set(edit.name, None if changed is None else mark + changed)


def _choose_agents(folder: Path, files: _RepositoryFiles, asked: Collection[str]) -> list[str]:
    """The agents asked for and those already set up. If there are none: the default agent, and
    those that have files here."""
    set_up = {
        agent.kind
        for agent in brands()
        for edit in _agent_edits(folder, [agent.kind])
        if (text := files.text(edit.name)) is not None and _has_ours(edit, text)
    }
    in_use = {
        agent.kind for agent in brands() if any((folder / trace).exists() for trace in agent.traces)
    }
    wanted = {*asked, *set_up} or {DEFAULT_AGENT, *in_use}
    return [agent.kind for agent in brands() if agent.kind in wanted]


def _has_ours(edit: FileEdit, text: str) -> bool:
    try:
        return edit.has_ours(text)
    except CannotMerge:
        return True  # our markers, but broken: reported when the file is to be changed


def _agent_edits(
    folder: Path, kinds: Iterable[str], server: RepositoryServer | None = None
) -> list[FileEdit]:
    names = {entry.name for entry in folder.iterdir()}
    return [edit for kind in kinds for edit in AGENTS[kind].setup_files(names, server)]


def _common_edits(draft: Callable[[], str]) -> Sequence[FileEdit]:
    return [
        WholeFile("shiftboss.yaml", draft(), COMMENT, is_renewed=False),
        BlockFile("AGENTS.md", LINES, HTML),
        BlockFile(".gitignore", [".shiftboss/"], is_present=_is_ignored),
    ]


def _is_ignored(text: str) -> bool:
    return not _IGNORE_LINES.isdisjoint(line.strip() for line in text.splitlines())
