"""The effects of git commands: changed files, changed branches, and hooks that would not run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from shiftboss.hooks.patches import paths_of_diff
from shiftboss.hooks.shell.effects import (
    BELOW,
    FOLDER,
    PLACE,
    PUT_BACK,
    REMOVED,
    Arguments,
    Ban,
    Effect,
    Write,
)
from shiftboss.hooks.shell.git_refs import (
    CHANGES_BRANCH,
    CHANGES_BRANCH_LONG,
    REF_COMMANDS,
    Subcommand,
    fetch,
    forced_branch_effects,
    refspec_effects,
)
from shiftboss.hooks.shell.words import Word

_READING_WORDS: Final = """
    log show diff status blame ls-files ls-tree cat-file rev-parse rev-list grep describe shortlog
    for-each-ref show-ref merge-base name-rev ls-remote version help check-ignore check-attr
    diff-tree diff-index diff-files count-objects whatchanged archive var range-diff cherry
    verify-commit verify-tag show-branch annotate --version --help
"""
_READING: Final = frozenset(_READING_WORDS.split())
_READING_WHEN_BARE_WORDS: Final = """
    branch tag remote stash worktree config reflog notes
"""
_READING_WHEN_BARE: Final = frozenset(_READING_WHEN_BARE_WORDS.split())
_GLOBAL_VALUES: Final = ("--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env")
# Settings that keep hooks from running, or that give a git command another meaning.
_RISKY_SETTINGS: Final = ("core.hookspath", "core.worktree", "core.bare", "include", "alias.")
_NO_HOOKS: Final = "would skip the hooks, which must run"


class GitCommand:
    """`places` are the folders of `-C`, in their order. `elsewhere` are other git folders and work
    trees that it names."""

    def __init__(self, words: Sequence[Word]) -> None:
        self.places: list[Word] = []
        self.settings: list[str] = []
        self.elsewhere: list[Word] = []
        at = 0
        while at < len(words) and words[at].text.startswith("-"):
            text = words[at].text
            value = words[at + 1] if at + 1 < len(words) else Word("")
            if text == "-C":
                self.places.append(value)
            elif text == "-c":
                self.settings.append(value.text)
            elif text.startswith(("--git-dir", "--work-tree")):
                joined = words[at].after(text.index("=") + 1) if "=" in text else value
                self.elsewhere.append(joined)
            elif text.startswith("--config-env"):
                self.settings.append(text.partition("=")[2] or value.text)
            elif text in ("--version", "--help", "-v", "-h"):
                break
            takes_next = text in ("-C", "-c") or (text in _GLOBAL_VALUES and "=" not in text)
            at += 2 if takes_next else 1
        self.name = words[at].text if at < len(words) and words[at].known else ""
        self.words = list(words[at + 1 :])

    @property
    def reads_only(self) -> bool:
        if self.name in _READING or self.name == "":
            return True
        if self.name == "config":
            return not _sets_something(self.words)
        operands = [word for word in self.words if not word.text.startswith("-")]
        listing = operands and operands[0].text in ("list", "show", "-v", "get-url")
        options = Arguments(self.words)
        changes = options.has(*CHANGES_BRANCH, *CHANGES_BRANCH_LONG)
        return self.name in _READING_WHEN_BARE and not changes and (not operands or bool(listing))


def git_effects(command: GitCommand, stdin: str | None, branch: str, base: str) -> Iterator[Effect]:
    """`branch` and `base` are those of the contract."""
    for setting in command.settings:
        key, _, value = setting.partition("=")
        yield from _setting_effects(key, value, branch)
    if command.reads_only:
        return
    yield Write(Word("."), PLACE)
    for place in command.elsewhere:
        yield Write(place, PLACE)
    if command.name in _SUBCOMMANDS:
        yield from _SUBCOMMANDS[command.name](command.words, stdin, branch, base)


def _setting_effects(key: str, value: str, branch: str) -> Iterator[Effect]:
    if key.casefold().startswith(_RISKY_SETTINGS):
        yield Ban(f"sets {key}, which could keep git from running the hooks; they must run")
    if key.casefold().startswith("remote.") and key.casefold().endswith(".fetch"):
        yield from refspec_effects(value, branch)


def _sets_something(words: Sequence[Word]) -> bool:
    arguments = Arguments(words, "f", ("--file", "--type", "--default", "--blob"))
    if arguments.has("l", "--list", "--get", "--get-all", "--get-regexp", "--get-urlmatch"):
        return False
    first = arguments.operands[0].text if arguments.operands else ""
    if first in ("list", "get", "get-regexp"):
        return False
    verbs = ("--unset", "--unset-all", "--add", "--replace-all", "--edit", "e")
    return len(arguments.operands) > 1 or arguments.has(*verbs)


def _config(words: Sequence[Word], _stdin: str | None, branch: str, _base: str) -> Iterator[Effect]:
    arguments = Arguments(words, "f", ("--file",))
    if arguments.has("--global", "--system"):
        yield Ban("changes settings outside of the work tree; use it without --global and --system")
    yield from (Write(word) for word in arguments.values("f", "--file"))
    texts = [word.text for word in arguments.operands[:3]] + [""]
    for key, value in pairwise(texts[:3]):
        yield from _setting_effects(key, value, branch)


def _commit(
    words: Sequence[Word], _stdin: str | None, _branch: str, _base: str
) -> Iterator[Effect]:
    if _skips_hooks(Arguments(words, "mFCctuS"), also="n"):
        yield Ban(_NO_HOOKS)


def _merge(words: Sequence[Word], _stdin: str | None, _branch: str, _base: str) -> Iterator[Effect]:
    if _skips_hooks(Arguments(words, "mFsXS")):
        yield Ban(_NO_HOOKS)


def _pull(words: Sequence[Word], stdin: str | None, branch: str, base: str) -> Iterator[Effect]:
    yield from _merge(words, stdin, branch, base)
    yield from fetch(words, stdin, branch, base)


def _push(words: Sequence[Word], _stdin: str | None, _branch: str, _base: str) -> Iterator[Effect]:
    arguments = Arguments(words, "o", ("--push-option", "--repo", "--receive-pack", "--exec"))
    if _skips_hooks(arguments):
        yield Ban(_NO_HOOKS)
    forced = arguments.has("f", "--mirror", "--prune") or any(
        option.startswith("--force") for option in arguments.options
    )
    if forced or any(word.text.startswith("+") for word in arguments.operands[1:]):
        yield Ban("would rewrite a branch that was pushed; push without --force")
    deletes = any(word.text.startswith(":") for word in arguments.operands[1:])
    if deletes or arguments.has("d", "--delete"):
        yield Ban("would delete a branch that was pushed")


def _skips_hooks(arguments: Arguments, also: str = "") -> bool:
    abbreviated = [option for option in arguments.options if option.startswith("--no-veri")]
    skips = any("--no-verify".startswith(option) for option in abbreviated)
    return skips or (also != "" and arguments.has(also))


def _mv(words: Sequence[Word], _stdin: str | None, _branch: str, _base: str) -> Iterator[Effect]:
    return (Write(word, BELOW) for word in Arguments(words).operands)


def _rm(words: Sequence[Word], _stdin: str | None, _branch: str, _base: str) -> Iterator[Effect]:
    arguments = Arguments(words)
    if arguments.has("n", "--dry-run"):
        return iter(())
    return (Write(word, REMOVED) for word in arguments.operands)


def _checkout(
    words: Sequence[Word], _stdin: str | None, branch: str, base: str
) -> Iterator[Effect]:
    """Only with paths. Files of the base are restored, files of other commits are changes."""
    arguments = Arguments(words, "bB")
    yield from forced_branch_effects(arguments, "B", branch)
    if arguments.after_dashes is None:
        return
    before = len(arguments.operands) - len(arguments.after_dashes)
    source = arguments.operands[0].text if before else None
    kind = PUT_BACK if _is_base(source, base) else BELOW
    yield from (Write(word, kind) for word in arguments.after_dashes)


def _restore(
    words: Sequence[Word], _stdin: str | None, _branch: str, base: str
) -> Iterator[Effect]:
    arguments = Arguments(words, "s", ("--source",))
    source = arguments.values("s", "--source")
    kind = PUT_BACK if _is_base(source[0].text if source else None, base) else BELOW
    yield from (Write(word, kind) for word in arguments.operands)


def _is_base(source: str | None, base: str) -> bool:
    if source in (None, "HEAD", "@"):
        return True
    assert source is not None
    return len(source) >= 7 and base.startswith(source.casefold())


def _apply(words: Sequence[Word], stdin: str | None, _branch: str, _base: str) -> Iterator[Effect]:
    arguments = Arguments(words, "pC", ("--directory", "--exclude", "--include"))
    if arguments.has("--check", "--stat", "--numstat", "--summary"):
        return iter(())
    strip = arguments.values("p")
    count = int(strip[0].text) if strip and strip[0].text.isdigit() else 1
    return (Write(Word(path)) for path in paths_of_diff(stdin or "", count))


def _worktree(
    words: Sequence[Word], _stdin: str | None, _branch: str, _base: str
) -> Iterator[Effect]:
    arguments = Arguments(words, "bB", ("--reason",))
    verb = arguments.operands[0].text if arguments.operands else ""
    if verb in ("remove", "move", "prune", "repair", "unlock"):
        yield Ban("changes work trees, which a task may not do")
    elif verb == "add":
        yield from (Write(word, FOLDER) for word in arguments.operands[1:2])


def _new_repository(
    words: Sequence[Word], _stdin: str | None, _branch: str, _base: str
) -> Iterator[Effect]:
    arguments = Arguments(words, "b", ("--initial-branch", "--template"))
    yield from (Write(word, FOLDER) for word in arguments.operands[:1])


def _clone(words: Sequence[Word], _stdin: str | None, _branch: str, _base: str) -> Iterator[Effect]:
    arguments = Arguments(words, "bcoju", ("--branch", "--depth", "--config", "--origin"))
    yield from (Write(word, FOLDER) for word in arguments.operands[1:2])


_SUBCOMMANDS: Final[dict[str, Subcommand]] = {
    **REF_COMMANDS,
    "config": _config,
    "commit": _commit,
    "merge": _merge,
    "pull": _pull,
    "am": _merge,
    "rebase": _merge,
    "push": _push,
    "mv": _mv,
    "rm": _rm,
    "checkout": _checkout,
    "restore": _restore,
    "apply": _apply,
    "worktree": _worktree,
    "init": _new_repository,
    "clone": _clone,
}
