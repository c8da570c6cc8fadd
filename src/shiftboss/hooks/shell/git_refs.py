"""The effects of git commands on branches and other refs. A task may change its own branch only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from shiftboss.hooks.shell.effects import Arguments, Ban, Effect
from shiftboss.hooks.shell.words import Word

CHANGES_BRANCH: Final = ("d", "D", "m", "M", "c", "C", "f")
CHANGES_BRANCH_LONG: Final = ("--delete", "--move", "--copy", "--force")
_FETCH_VALUES: Final = (
    *("--depth", "--deepen", "--shallow-since", "--shallow-exclude", "--refmap", "--jobs"),
    *("--upload-pack", "--server-option", "--negotiation-tip", "--filter", "--strategy"),
    "--strategy-option",
)
_VERBS: Final = ("update", "create", "delete", "symref-update", "symref-create", "symref-delete")

Subcommand = Callable[[Sequence[Word], str | None, str, str], Iterator[Effect]]


def fetch(words: Sequence[Word], stdin: str | None, branch: str, _base: str) -> Iterator[Effect]:
    """Also used for a pull, which fetches first."""
    arguments = Arguments(words, "joXs", _FETCH_VALUES)
    refspecs = [word.text for word in arguments.operands[1:] if word.known]
    refspecs += [word.text for word in arguments.values("--refmap") if word.known]
    if arguments.has("--stdin"):
        refspecs += (stdin or "").split()
    for refspec in refspecs:
        yield from refspec_effects(refspec, branch)


def refspec_effects(refspec: str, branch: str) -> Iterator[Effect]:
    """A refspec may write to the branch of the task and to remote-tracking branches."""
    _, _, target = refspec.partition(":")
    own = (branch, f"heads/{branch}", f"refs/heads/{branch}")
    if target and target not in own and not target.startswith(("refs/remotes/", "remotes/")):
        yield Ban(f"changes {target}, which is not the branch of the task")


def _branch(words: Sequence[Word], _stdin: str | None, branch: str, _base: str) -> Iterator[Effect]:
    arguments = Arguments(words, "u", ("--set-upstream-to",))
    if arguments.has(*CHANGES_BRANCH, *CHANGES_BRANCH_LONG):
        others = [
            word.text for word in arguments.operands[:2] if word.text != branch and word.known
        ]
        if others:
            yield Ban(f"changes the branch {others[0]}, which is not the branch of the task")


def forced_branch_effects(arguments: Arguments, letter: str, branch: str) -> Iterator[Effect]:
    """`checkout -B` and `switch -C` can move an existing branch."""
    for word in arguments.values(letter, "--force-create"):
        if word.known and word.text != branch:
            yield Ban(f"changes the branch {word.text}, which is not the branch of the task")


def _switch(words: Sequence[Word], _stdin: str | None, branch: str, _base: str) -> Iterator[Effect]:
    names = ("--create", "--force-create", "--orphan", "--conflict")
    return forced_branch_effects(Arguments(words, "cC", names), "C", branch)


def _update_ref(
    words: Sequence[Word], stdin: str | None, branch: str, _base: str
) -> Iterator[Effect]:
    arguments = Arguments(words, "m")
    names = [word.text for word in arguments.operands[:1] if word.known]
    if arguments.has("--stdin"):
        lines = (line.split() for line in (stdin or "").splitlines())
        names += [line[1] for line in lines if len(line) > 1 and line[0] in _VERBS]
    for name in names:
        if name not in ("HEAD", f"refs/heads/{branch}"):
            yield Ban(f"changes {name}, which is not the branch of the task")


def _symbolic_ref(
    words: Sequence[Word], _stdin: str | None, branch: str, _base: str
) -> Iterator[Effect]:
    arguments = Arguments(words, "m")
    texts = [word.text for word in arguments.operands]
    is_own = texts == ["HEAD", f"refs/heads/{branch}"]
    if arguments.has("d", "--delete") or (len(texts) > 1 and not is_own):
        yield Ban(f"changes what {texts[0] if texts else 'a ref'} points to; use git switch")


def _replace(
    words: Sequence[Word], _stdin: str | None, _branch: str, _base: str
) -> Iterator[Effect]:
    arguments = Arguments(words, "", ("--format",))
    if words and not arguments.has("l", "--list"):
        yield Ban("makes git show other commits or files than the real ones")


def _remote(
    words: Sequence[Word], _stdin: str | None, _branch: str, _base: str
) -> Iterator[Effect]:
    if any(word.text.startswith("--mirror") for word in words):
        yield Ban("would let a fetch change every branch; use it without --mirror")


def _without_hooks(
    _words: Sequence[Word], _stdin: str | None, _branch: str, _base: str
) -> Iterator[Effect]:
    yield Ban("would change branches without running the hooks; use git commit and git push")


REF_COMMANDS: Final[dict[str, Subcommand]] = {
    "fetch": fetch,
    "branch": _branch,
    "switch": _switch,
    "update-ref": _update_ref,
    "symbolic-ref": _symbolic_ref,
    "replace": _replace,
    "remote": _remote,
    "send-pack": _without_hooks,
    "fast-import": _without_hooks,
}
