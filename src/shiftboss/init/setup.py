"""What `shiftboss init` would change in a folder, and why it cannot."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from shiftboss.errors import InvalidRequest
from shiftboss.init.agents import AGENTS, DEFAULT_AGENT
from shiftboss.init.file_edits import BlockFile, CannotMerge, FileEdit, WholeFile
from shiftboss.init.files import Change, read_if_there
from shiftboss.init.project import COMMENT, draft_for
from shiftboss.init.text_blocks import HTML

# What AGENTS.md says about working under a contract of Shiftboss.


LINES: Final = (
    "## Working under Shiftboss",
    "",
    "If Shiftboss gave you a task (your prompt names it, or SHIFTBOSS_TASK is set), these hold.",
    "Otherwise this section is not about you.",
    "",
    "- Change only the files of your contract. For another one, call `request_scope` with the path",
    "  and the reason, and wait for the grant. What was refused is not to be tried another way.",
    "- Work in the work tree that you were started in, on its branch. No other branches, no pushes",
    "  with force, no `--no-verify`.",
    "- Tests stay: do not remove, skip or weaken them.",
    "- Commit what you have done, then call `swarm_complete`. The server looks at it itself,",
    "  and answers with a receipt, or with every reason why not: mend those, and call it again.",
    "- If you cannot go on, say why with `report_milestone` and BLOCKED. Do not guess, and claim",
    "  nothing that is not so.",
)


_MARK: Final = "\ufeff"
_IGNORED: Final = frozenset((".shiftboss", ".shiftboss/", "/.shiftboss", "/.shiftboss/"))


class Proposal(NamedTuple):
    """`left` are files of ours that somebody has changed, so that a removal leaves them."""

    agents: list[str]
    changes: list[Change]
    left: list[str]


class _Folder:
    """The files as they are, and as they would be. Two names may lead to one file."""

    def __init__(self, folder: Path) -> None:
        self._top = folder.resolve()
        self._before: dict[Path, bytes | None] = {}
        self._after: dict[Path, bytes | None] = {}
        self._names: dict[Path, str] = {}

    def text(self, name: str) -> str | None:
        path = self._place(name)
        if path not in self._after:
            self._before[path] = self._after[path] = read_if_there(path, name)
            self._names[path] = name
        content = self._after[path]
        try:
            return None if content is None else content.decode()
        except UnicodeDecodeError as error:
            raise InvalidRequest(
                f"{name} is not UTF-8: {error.reason}", field=name, hint="nothing was changed"
            ) from error

    def set(self, name: str, text: str | None) -> None:
        self._after[self._place(name)] = None if text is None else text.encode()

    def _place(self, name: str) -> Path:
        """Through links, as long as they stay inside."""
        path = (self._top / name).resolve()
        if not path.is_relative_to(self._top):
            raise InvalidRequest(
                f"{name} leads out of the repository, to {path}",
                field=name,
                hint="make it a file of its own; nothing was changed",
            )
        return path

    def changes(self) -> list[Change]:
        return [
            Change(self._names[path], path, before, self._after[path])
            for path, before in self._before.items()
            if before != self._after[path]
        ]


def propose(folder: Path, asked: Collection[str] = ()) -> Proposal:
    """All that is missing. Raises InvalidRequest for a file that cannot be changed."""
    files = _Folder(folder)
    chosen = _chosen(folder, files, asked)
    for wish in [*_common(lambda: draft_for(folder)), *_of_agents(folder, chosen)]:
        _change(files, wish, wish.with_ours)
    return Proposal(chosen, files.changes(), [])


def propose_removal(folder: Path, asked: Collection[str] = ()) -> Proposal:
    """Everything of ours, or the settings of some agents alone."""
    files = _Folder(folder)
    chosen = [name for name in AGENTS if not asked or name in asked]
    # Nothing is made here, so there is nothing to guess.
    common = [] if asked else _common(str)
    left = []
    for wish in [*common, *_of_agents(folder, chosen)]:
        if files.text(wish.name) is None:
            continue
        _change(files, wish, _taking_out(wish))
        rest = files.text(wish.name)
        if rest is not None and wish.is_left(rest.removeprefix(_MARK)):
            left.append(wish.name)
    return Proposal(chosen, files.changes(), left)


def _taking_out(wish: FileEdit) -> Callable[[str | None], str | None]:
    return lambda text: None if text is None else wish.without_ours(text)


def _change(files: _Folder, wish: FileEdit, change: Callable[[str | None], str | None]) -> None:
    text = files.text(wish.name)
    # A mark of byte order is no part of what is written.
    mark = _MARK if text is not None and text.startswith(_MARK) else ""
    try:
        changed = change(None if text is None else text.removeprefix(_MARK))
    except CannotMerge as error:
        place = wish.name if error.line is None else f"{wish.name}:{error.line}"
        hint = "; ".join(filter(None, [error.by_hand, "nothing was changed"]))
        raise InvalidRequest(f"{place}: {error.words}", field=wish.name, hint=hint) from error
    files.set(wish.name, None if changed is None else mark + changed)


def _chosen(folder: Path, files: _Folder, asked: Collection[str]) -> list[str]:
    """Those that are asked for and those that are set up already; else who is used here."""
    set_up = {
        name
        for name in AGENTS
        for wish in _of_agents(folder, [name])
        if (text := files.text(wish.name)) is not None and _has_ours(wish, text)
    }
    used = {
        agent.name
        for agent in AGENTS.values()
        if any((folder / trace).exists() for trace in agent.traces)
    }
    wanted = {*asked, *set_up} or {DEFAULT_AGENT, *used}
    return [name for name in AGENTS if name in wanted]


def _has_ours(wish: FileEdit, text: str) -> bool:
    try:
        return wish.has_ours(text)
    except CannotMerge:
        return True  # markers of ours, if broken ones: that is told when it is to be changed


def _of_agents(folder: Path, names: Iterable[str]) -> list[FileEdit]:
    there = {one.name for one in folder.iterdir()}
    return [wish for name in names for wish in AGENTS[name].wishes(there)]


def _common(draft: Callable[[], str]) -> Sequence[FileEdit]:
    return [
        WholeFile("shiftboss.yaml", draft(), COMMENT, is_renewed=False),
        BlockFile("AGENTS.md", LINES, HTML),
        BlockFile(".gitignore", [".shiftboss/"], is_said=_is_ignored),
    ]


def _is_ignored(text: str) -> bool:
    return not _IGNORED.isdisjoint(line.strip() for line in text.splitlines())
