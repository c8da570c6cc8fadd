"""The git hooks of a work tree: ours first, then those that the repository would have run.

They are a setting of this tree alone. The hooks and settings of the user's own checkout stay as
they are.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from shiftboss.hooks.command import hook_argv
from shiftboss.orchestrator.git.repository import GitRepo
from shiftboss.orchestrator.git.runner import checked
from shiftboss.orchestrator.worktrees.worktree import Worktree

_CHECKED: Final = ("pre-commit", "pre-push")
# Set-up commands (husky, for one) may bring these later, so they are looked for when git calls.
_PASSED_ON: Final = (
    *("applypatch-msg", "pre-applypatch", "post-applypatch", "pre-merge-commit"),
    *("prepare-commit-msg", "commit-msg", "post-commit", "pre-rebase", "post-checkout"),
    *("post-merge", "post-rewrite"),
)
# Git calls these all the time: they are passed on where the repository has them.
_IF_THERE: Final = (
    *("reference-transaction", "post-index-change", "pre-auto-gc", "sendemail-validate"),
    *("p4-changelist", "p4-prepare-changelist", "p4-post-changelist", "p4-pre-submit"),
)

_HEAD: Final = """\
#!/bin/sh
# Made by Shiftboss for one work tree. It goes on with the repository's own hook.
theirs={theirs}
if [ -z "$theirs" ]; then
    theirs=$(git config --type=path --get-all core.hooksPath | grep -vxF -e {own} | tail -n 1)
fi
if [ -z "$theirs" ]; then
    theirs=$(git rev-parse --git-common-dir)/hooks
fi
theirs=$theirs/{name}
"""
_OTHERS: Final = """\
[ -x "$theirs" ] || exit 0
exec "$theirs" "$@"
"""
_PRE_COMMIT: Final = """\
{check} </dev/null || exit $?
[ -x "$theirs" ] || exit 0
exec "$theirs" "$@"
"""
# What is pushed is told on the input, and both want to read it.
_PRE_PUSH: Final = """\
refs=$(cat; echo .)
refs=${{refs%.}}
printf %s "$refs" | {check} "$@" || exit $?
[ -x "$theirs" ] || exit 0
printf %s "$refs" | "$theirs" "$@"
"""


async def set_hooks(tree: Worktree, contract_file: Path) -> None:
    repo = GitRepo(tree.common)
    folder = contract_file.parent / "git-hooks"
    await _allow_own_settings(repo)
    theirs = await _setting(repo, "config.worktree", "core.hooksPath", "--type=path")
    names = [*_CHECKED, *_PASSED_ON, *await _there(repo, tree, theirs)]
    await asyncio.to_thread(_write, folder, names, contract_file, theirs)
    await set_own(tree, "core.hooksPath", str(folder))


async def set_own(tree: Worktree, name: str, value: str) -> None:
    """A setting of this tree alone."""
    said = await tree.checkout.run(["config", "--worktree", name, value])
    checked(said, f"the settings of {tree.path}")


async def _allow_own_settings(repo: GitRepo) -> None:
    """Settings of single work trees. Two that mean the first of them must move there, see the
    manual of git-worktree; they are there before they are read from there."""
    said = await repo.run(["config", "--type=bool", "--get", "extensions.worktreeConfig"])
    if said.out.strip() == b"true":
        return
    moved = []
    for name, kind in (("core.bare", "--type=bool"), ("core.worktree", "--no-type")):
        value = await _setting(repo, "config", name, kind)
        if value not in ("", "false"):
            moved.append(name)
            await _change(repo, "config.worktree", name, value)
    await _change(repo, "config", "extensions.worktreeConfig", "true")
    for name in moved:
        await _change(repo, "config", "--unset-all", name)


async def _setting(repo: GitRepo, file: str, name: str, kind: str) -> str:
    """Empty where there is none."""
    path = str(repo.common / file)
    said = await repo.run(["config", "--file", path, kind, "--get", name])
    return said.out.decode(errors="surrogateescape").strip() if said.code == 0 else ""


async def _change(repo: GitRepo, file: str, *arguments: str) -> None:
    path = str(repo.common / file)
    await repo.text(f"the settings of {repo.common}", "config", "--file", path, *arguments)


async def _there(repo: GitRepo, tree: Worktree, theirs: str) -> list[str]:
    """Which of the hooks that git calls all the time the repository has."""
    if not theirs:
        said = await repo.run(["config", "--type=path", "--get", "core.hooksPath"])
        theirs = said.out.decode(errors="surrogateescape").strip()
    folder = tree.path / theirs if theirs else repo.common / "hooks"
    return await asyncio.to_thread(
        lambda: [name for name in _IF_THERE if (folder / name).is_file()]
    )


def _write(folder: Path, names: Sequence[str], contract_file: Path, theirs: str) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in names:
        head = _HEAD.format(
            theirs=shlex.quote(theirs), own=shlex.quote(str(folder)), name=shlex.quote(name)
        )
        file = folder / name
        file.write_text(head + _body(name, contract_file))
        file.chmod(0o700)


def _body(name: str, contract_file: Path) -> str:
    if name not in _CHECKED:
        return _OTHERS
    body = _PRE_COMMIT if name == "pre-commit" else _PRE_PUSH
    return body.format(check=shlex.join(hook_argv(name, contract_file)))
