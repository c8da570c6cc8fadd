"""The git hooks of a work tree: ours run first, then those of the repository.

They are configured for this work tree only. The hooks and settings of the user's own checkout do
not change.
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
# Set-up commands such as husky may install these later, so they are looked up when git calls them.
_FORWARDED: Final = (
    *("applypatch-msg", "pre-applypatch", "post-applypatch", "pre-merge-commit"),
    *("prepare-commit-msg", "commit-msg", "post-commit", "pre-rebase", "post-checkout"),
    *("post-merge", "post-rewrite"),
)
# Git calls these very often, so they are forwarded only if the repository has them.
_FORWARDED_IF_PRESENT: Final = (
    *("reference-transaction", "post-index-change", "pre-auto-gc", "sendemail-validate"),
    *("p4-changelist", "p4-prepare-changelist", "p4-post-changelist", "p4-pre-submit"),
)

_HEAD: Final = """\
#!/bin/sh
# Created by Shiftboss for one work tree. It ends with the repository's own hook.
hooks={hooks}
if [ -z "$hooks" ]; then
    hooks=$(git config --type=path --get-all core.hooksPath | grep -vxF -e {own} | tail -n 1)
fi
if [ -z "$hooks" ]; then
    hooks=$(git rev-parse --git-common-dir)/hooks
fi
hook=$hooks/{name}
"""
_FORWARD: Final = """\
[ -x "$hook" ] || exit 0
exec "$hook" "$@"
"""
_PRE_COMMIT: Final = """\
{check} </dev/null || exit $?
[ -x "$hook" ] || exit 0
exec "$hook" "$@"
"""
# The pushed refs are on standard input, and both hooks read them.
_PRE_PUSH: Final = """\
refs=$(cat; echo .)
refs=${{refs%.}}
printf %s "$refs" | {check} "$@" || exit $?
[ -x "$hook" ] || exit 0
printf %s "$refs" | "$hook" "$@"
"""


async def install_hooks(worktree: Worktree, contract_file: Path) -> None:
    repo = GitRepo(worktree.common)
    folder = contract_file.parent / "git-hooks"
    await _enable_worktree_config(repo)
    repo_hooks = await _setting(repo, "config.worktree", "core.hooksPath", "--type=path")
    names = [*_CHECKED, *_FORWARDED, *await _present_hooks(repo, worktree, repo_hooks)]
    await asyncio.to_thread(_write_hooks, folder, names, contract_file, repo_hooks)
    await set_worktree_config(worktree, "core.hooksPath", str(folder))


async def set_worktree_config(worktree: Worktree, name: str, value: str) -> None:
    """Set a git setting for this work tree only."""
    output = await worktree.checkout.run(["config", "--worktree", name, value])
    checked(output, f"the settings of {worktree.path}")


async def _enable_worktree_config(repo: GitRepo) -> None:
    """Allow settings for single work trees. `core.bare` and `core.worktree` then have to move to
    the settings of the main work tree; see the manual of git-worktree. They are written there
    before git starts to read them there."""
    output = await repo.run(["config", "--type=bool", "--get", "extensions.worktreeConfig"])
    if output.out.strip() == b"true":
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
    """Empty if it is not set. Git is asked only if the file has the word: it takes milliseconds."""
    path = repo.common / file
    if not await asyncio.to_thread(_mentions, path, name.rpartition(".")[2]):
        return ""
    output = await repo.run(["config", "--file", str(path), kind, "--get", name])
    return output.out.decode(errors="surrogateescape").strip() if output.code == 0 else ""


def _mentions(path: Path, word: str) -> bool:
    try:
        return word.lower().encode() in path.read_bytes().lower()
    except OSError as error:
        return not isinstance(error, FileNotFoundError)


async def _change(repo: GitRepo, file: str, *arguments: str) -> None:
    path = str(repo.common / file)
    await repo.text(f"the settings of {repo.common}", "config", "--file", path, *arguments)


async def _present_hooks(repo: GitRepo, worktree: Worktree, repo_hooks: str) -> list[str]:
    """The hooks of the repository that are forwarded only if present."""
    if not repo_hooks:
        output = await repo.run(["config", "--type=path", "--get", "core.hooksPath"])
        repo_hooks = output.out.decode(errors="surrogateescape").strip()
    folder = worktree.path / repo_hooks if repo_hooks else repo.common / "hooks"
    return await asyncio.to_thread(
        lambda: [name for name in _FORWARDED_IF_PRESENT if (folder / name).is_file()]
    )


def _write_hooks(folder: Path, names: Sequence[str], contract_file: Path, repo_hooks: str) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in names:
        head = _HEAD.format(
            hooks=shlex.quote(repo_hooks), own=shlex.quote(str(folder)), name=shlex.quote(name)
        )
        file = folder / name
        file.write_text(head + _body(name, contract_file))
        file.chmod(0o700)


def _body(name: str, contract_file: Path) -> str:
    if name not in _CHECKED:
        return _FORWARD
    body = _PRE_COMMIT if name == "pre-commit" else _PRE_PUSH
    return body.format(check=shlex.join(hook_argv(name, contract_file)))
