"""What a git command would do to branches and other names: those of others are left alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from shiftboss.hooks.shell.effects import Arguments, Ban, Found
from shiftboss.hooks.shell.words import Word

CHANGES_BRANCH: Final = ("d", "D", "m", "M", "c", "C", "f")
CHANGES_BRANCH_LONG: Final = ("--delete", "--move", "--copy", "--force")
_FETCH_VALUES: Final = (
    *("--depth", "--deepen", "--shallow-since", "--shallow-exclude", "--refmap", "--jobs"),
    *("--upload-pack", "--server-option", "--negotiation-tip", "--filter", "--strategy"),
    "--strategy-option",
)
_VERBS: Final = ("update", "create", "delete", "symref-update", "symref-create", "symref-delete")

Subcommand = Callable[[Sequence[Word], str | None, str, str], Iterator[Found]]


def fetch(words: Sequence[Word], stdin: str | None, branch: str, _base: str) -> Iterator[Found]:
    """Also of a pull, which fetches first."""
    arguments = Arguments(words, "joXs", _FETCH_VALUES)
    given = [one.text for one in arguments.operands[1:] if one.known]
    given += [one.text for one in arguments.values("--refmap") if one.known]
    if arguments.has("--stdin"):
        given += (stdin or "").split()
    for refspec in given:
        yield from moved_by(refspec, branch)


def moved_by(refspec: str, branch: str) -> Iterator[Found]:
    """What lies behind its colon is written here: into the branch of the task, or among what is
    known of other repositories."""
    _, _, target = refspec.partition(":")
    own = (branch, f"heads/{branch}", f"refs/heads/{branch}")
    if target and target not in own and not target.startswith(("refs/remotes/", "remotes/")):
        yield Ban(f"changes {target}, which is not the branch of the task")


def _branch(words: Sequence[Word], _stdin: str | None, branch: str, _base: str) -> Iterator[Found]:
    arguments = Arguments(words, "u", ("--set-upstream-to",))
    if arguments.has(*CHANGES_BRANCH, *CHANGES_BRANCH_LONG):
        others = [one.text for one in arguments.operands[:2] if one.text != branch and one.known]
        if others:
            yield Ban(f"changes the branch {others[0]}, which is not that of the task")


def made_anew(arguments: Arguments, letter: str, branch: str) -> Iterator[Found]:
    """`checkout -B` and `switch -C` move a branch that is there."""
    for one in arguments.values(letter, "--force-create"):
        if one.known and one.text != branch:
            yield Ban(f"changes the branch {one.text}, which is not that of the task")


def _switch(words: Sequence[Word], _stdin: str | None, branch: str, _base: str) -> Iterator[Found]:
    names = ("--create", "--force-create", "--orphan", "--conflict")
    return made_anew(Arguments(words, "cC", names), "C", branch)


def _update_ref(
    words: Sequence[Word], stdin: str | None, branch: str, _base: str
) -> Iterator[Found]:
    arguments = Arguments(words, "m")
    names = [one.text for one in arguments.operands[:1] if one.known]
    if arguments.has("--stdin"):
        lines = (line.split() for line in (stdin or "").splitlines())
        names += [line[1] for line in lines if len(line) > 1 and line[0] in _VERBS]
    for name in names:
        if name not in ("HEAD", f"refs/heads/{branch}"):
            yield Ban(f"changes {name}, which is not the branch of the task")


def _symbolic_ref(
    words: Sequence[Word], _stdin: str | None, branch: str, _base: str
) -> Iterator[Found]:
    arguments = Arguments(words, "m")
    texts = [one.text for one in arguments.operands]
    is_own = texts == ["HEAD", f"refs/heads/{branch}"]
    if arguments.has("d", "--delete") or (len(texts) > 1 and not is_own):
        yield Ban(f"changes what {texts[0] if texts else 'a name'} stands for; use git switch")


def _replace(
    words: Sequence[Word], _stdin: str | None, _branch: str, _base: str
) -> Iterator[Found]:
    arguments = Arguments(words, "", ("--format",))
    if words and not arguments.has("l", "--list"):
        yield Ban("lets git show other commits or files than those that are there")


def _remote(words: Sequence[Word], _stdin: str | None, _branch: str, _base: str) -> Iterator[Found]:
    if any(one.text.startswith("--mirror") for one in words):
        yield Ban("would let a fetch change every branch; leave out --mirror")


def _past_the_hooks(
    _words: Sequence[Word], _stdin: str | None, _branch: str, _base: str
) -> Iterator[Found]:
    yield Ban("would change branches past the hooks, which must run; commit and push instead")


REF_COMMANDS: Final[dict[str, Subcommand]] = {
    "fetch": fetch,
    "branch": _branch,
    "switch": _switch,
    "update-ref": _update_ref,
    "symbolic-ref": _symbolic_ref,
    "replace": _replace,
    "remote": _remote,
    "send-pack": _past_the_hooks,
    "fast-import": _past_the_hooks,
}
