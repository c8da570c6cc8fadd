"""Decides whether a contract allows paths to be written, by edits and by shell commands."""

from __future__ import annotations

import os
import os.path
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from shiftboss.hooks.contract import LocalContract, git_folder
from shiftboss.hooks.shell.effects import (
    BELOW,
    ENTRY,
    FOLDER,
    PLACE,
    PUT_BACK,
    REMOVED,
    Ban,
    Effect,
    Write,
)
from shiftboss.hooks.shell.words import Word
from shiftboss.rules.paths.ownership import Ownership
from shiftboss.rules.paths.patterns import Scope

SCOPE: Final = "scope"
OUTSIDE: Final = "outside"
BANNED: Final = "banned"
_DEVICES: Final = frozenset(
    ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/zero", "/dev/full")
)
_INSIDE_GIT: Final = "is inside of .git, which only git may change"
_MATCHES_MAX: Final = 1000
_POINTER_BYTES_MAX: Final = 10_000


class WriteDenial(NamedTuple):
    """`rule` is one of the above. `what` and `reason` together make a sentence."""

    rule: str
    what: str
    reason: str


class WriteChecker:
    """Checks what an attempt writes. Shell commands may write to shared folders such as /tmp."""

    def __init__(
        self, contract: LocalContract, contract_file: str, environment: Mapping[str, str]
    ) -> None:
        self.contract = contract
        self._ownership = Ownership(contract.owned, contract.readonly, contract.generated)
        # Some file systems ignore letter case, and files_readonly has to hold there as well.
        self._readonly = Scope(contract.readonly, case_insensitive=True)
        self.tree = os.path.realpath(contract.tree)
        self._shared = _shared_folders(environment)
        self._protected = (self.tree, os.path.realpath(contract_file), *_git_folders(self.tree))

    def check_edits(self, folder: str, paths: Iterable[str]) -> Iterator[WriteDenial]:
        """Paths of an editor: each has to be in the work tree and in the contract."""
        for path in paths:
            real = os.path.realpath(os.path.join(folder, os.path.expanduser(path)))
            inside = self._relative(real)
            if inside is None:
                yield WriteDenial(OUTSIDE, path, f"is outside of the work tree {self.tree}")
            else:
                reason = self.refusal(inside)
                if reason is not None:
                    yield WriteDenial(SCOPE, inside, reason)

    def check_effects(self, effects: Iterable[Effect]) -> Iterator[WriteDenial]:
        """Effects of a shell command. It may also write ignored files and shared folders."""
        for effect in effects:
            if isinstance(effect, Ban):
                yield WriteDenial(BANNED, "the command", effect.reason)
            else:
                yield from self._write(effect)

    def refusal(self, path: str) -> str | None:
        """Why a path of the repository may not be changed, worded to follow the path."""
        if self._readonly.covers(path) and not self._ownership.is_readonly(path):
            return "is in files_readonly, except for letter case"
        refusal = self._ownership.refusal(path)
        return refusal.reason if refusal is not None else None

    def _write(self, write: Write) -> Iterator[WriteDenial]:
        word = write.word
        if word.known and not word.text:
            return
        if write.folder is None and not word.text.startswith("/"):
            return
        folder = write.folder or "/"
        if word.picks is not None:
            yield from self._picked(folder, word, write.kind)
        elif not word.known:
            yield from self._beginning(folder, word.text)
        elif word.pattern is not None:
            yield from self._pattern(folder, word, write)
        else:
            yield from self._path(os.path.join(folder, word.text), word.text, write)

    def _beginning(self, folder: str, text: str) -> Iterator[WriteDenial]:
        """A path of which only the beginning is known: it is somewhere below a folder."""
        if not text:
            return
        real = os.path.realpath(os.path.join(folder, text[: text.rfind("/") + 1]))
        if real != self.tree and self._relative(real) is None and not self._is_shared(real):
            yield self._outside(text, real)

    def _picked(self, folder: str, word: Word, kind: str) -> Iterator[WriteDenial]:
        """The selection of `find` below a folder, among all files that git tracks or could
        track."""
        if word.pattern is not None:
            import glob

            for start in glob.glob(os.path.join(glob.escape(folder), word.pattern))[:_MATCHES_MAX]:
                yield from self._picked(folder, Word(start, picks=word.picks), kind)
            return
        start = word.text.rstrip("/") or "/"
        yield from self._beginning(folder, f"{start}/")
        real = os.path.realpath(os.path.join(folder, start))
        inside = "" if real == self.tree else self._relative(real)
        if inside is None or kind in (FOLDER, PLACE, PUT_BACK):
            return
        if ".git" in inside.casefold().split("/") or (not inside and _is_picked(word, ".git")):
            yield WriteDenial(BANNED, inside or ".git", _INSIDE_GIT)
            return
        with_folders = kind in (BELOW, REMOVED)
        for path in self._files_below(inside or "."):
            below = path[len(inside) :].lstrip("/")
            if _is_picked(word, below, with_folders=with_folders):
                reason = self.refusal(path)
                if reason is not None:
                    yield WriteDenial(SCOPE, path, reason)
                    return

    def _pattern(self, folder: str, word: Word, write: Write) -> Iterator[WriteDenial]:
        import glob  # late: few commands have one

        assert word.pattern is not None
        paths = glob.iglob(os.path.join(glob.escape(folder), word.pattern))
        count = 0
        for count, path in enumerate(paths, start=1):
            if count > _MATCHES_MAX:
                break
            yield from self._path(path, word.text, write)
        if count == 0:
            first = min(word.text.find(mark) for mark in "*?[" if mark in word.text)
            yield from self._beginning(folder, word.text[:first] or "./")

    def _path(self, path: str, text: str, write: Write) -> Iterator[WriteDenial]:
        if write.into is not None and os.path.isdir(path):
            path = os.path.join(path, write.into)
        if path in _DEVICES or path.startswith("/dev/fd/"):
            return
        if write.kind in (ENTRY, BELOW, REMOVED):
            head, name = os.path.split(path.rstrip("/"))
            real = os.path.join(os.path.realpath(head), name)
            real = os.path.realpath(path) if name in ("", ".", "..") else real
        else:
            real = os.path.realpath(path)
        inside = self._relative(real)
        if inside is None:
            if not self._is_shared(real) and not self._is_the_tree(real, write.kind):
                yield self._outside(text, real)
        elif write.kind != PLACE:
            yield from self._inside_the_tree(inside, real, write.kind)

    def _is_the_tree(self, real: str, kind: str) -> bool:
        harmless = kind in (FOLDER, PLACE, PUT_BACK)
        return harmless and (real == self.tree or (kind == FOLDER and self._contains_tree(real)))

    def _inside_the_tree(self, inside: str, real: str, kind: str) -> Iterator[WriteDenial]:
        if ".git" in inside.casefold().split("/"):
            yield WriteDenial(BANNED, inside, _INSIDE_GIT)
            return
        if kind in (FOLDER, PUT_BACK) or (kind == REMOVED and not os.path.lexists(real)):
            return
        if os.path.isdir(real) and not os.path.islink(real):
            if kind in (BELOW, REMOVED):
                yield from self._all_below(inside)
            return
        reason = self.refusal(inside)
        if reason is None or (kind == BELOW and self.refusal(f"{inside}/x") is None):
            return
        from shiftboss.hooks.git import is_ignored  # late: most calls need no git

        if not is_ignored(self.tree, inside):
            yield WriteDenial(SCOPE, inside, reason)

    def _all_below(self, inside: str) -> Iterator[WriteDenial]:
        for path in self._files_below(inside):
            reason = self.refusal(path)
            if reason is not None:
                yield WriteDenial(SCOPE, path, reason)
                return

    def _files_below(self, inside: str) -> list[str]:
        """Without the files that git ignores."""
        from shiftboss.hooks.git import git_lines  # late: most calls need no git

        listing = ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", inside]
        return git_lines(self.tree, listing)

    def _outside(self, text: str, real: str) -> WriteDenial:
        if real == self.tree or self._contains_tree(real):
            return WriteDenial(OUTSIDE, text, f"is or contains the work tree {self.tree}")
        return WriteDenial(OUTSIDE, text, f"is outside of the work tree {self.tree}")

    def _relative(self, real: str) -> str | None:
        """The path relative to the work tree; None if it is outside, or the work tree itself."""
        prefix = self.tree.rstrip("/") + "/"
        return real[len(prefix) :] if real.startswith(prefix) else None

    def _contains_tree(self, real: str) -> bool:
        return self.tree.startswith(real.rstrip("/") + "/")

    def _is_shared(self, real: str) -> bool:
        return any(self._is_in_shared(shared, real) for shared in self._shared)

    def _is_in_shared(self, shared: str, real: str) -> bool:
        """If the work tree, its git folders or the contract are in a shared folder themselves, the
        folder around them is not free to write."""
        prefix = shared.rstrip("/") + "/"
        if real == shared:
            return not any(path.startswith(prefix) for path in self._protected)
        if not real.startswith(prefix):
            return False
        top = real[len(prefix) :].split("/", maxsplit=1)[0]
        return all(
            not path.startswith(prefix) or path[len(prefix) :].split("/")[0] != top
            for path in self._protected
        )


def _is_picked(word: Word, below: str, *, with_folders: bool = False) -> bool:
    """Whether a file is selected, by itself or with a folder around it."""
    assert word.picks is not None
    if word.picks(below, False):
        return True
    parts = below.split("/")
    return with_folders and any(
        word.picks("/".join(parts[:count]), True) for count in range(len(parts))
    )


def _git_folders(tree: str) -> Iterator[str]:
    """The git folder of the work tree, and the one shared with other work trees, which holds the
    settings, hooks and branches."""
    git_dir = git_folder(tree)
    if git_dir is None:
        return
    yield os.path.realpath(git_dir)
    try:
        with open(f"{git_dir}/commondir", "rb") as opened:
            shared = os.fsdecode(opened.read(_POINTER_BYTES_MAX)).strip()
    except OSError:
        return
    yield os.path.realpath(os.path.join(git_dir, shared))


def _shared_folders(environment: Mapping[str, str]) -> Sequence[str]:
    folders = ["/tmp", "/var/tmp", environment.get("TMPDIR", "")]  # noqa: S108
    real = (os.path.realpath(folder) for folder in folders if os.path.isabs(folder))
    return [folder for folder in dict.fromkeys(real) if folder != "/"]
