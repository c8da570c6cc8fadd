"""What a work tree gets in addition to its commit: ports, copied files, the set-up commands."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import socket
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from shiftboss.errors import TreeUnavailable
from shiftboss.evidence.commands.command import Limits, run_command
from shiftboss.orchestrator.git.runner import plain_environment
from shiftboss.orchestrator.worktrees.git_hooks import set_worktree_config
from shiftboss.orchestrator.worktrees.worktree import Worktree
from shiftboss.protocol.plan import PlanRepo
from shiftboss.rules.claims.criteria import parse_command

# Below the range that systems use for outgoing connections.
_FIRST_PORT: Final = 20_000
_PORTS: Final = 10_000
_OUTPUT_CHARACTERS: Final = 2000
# Characters with a meaning in an exclude file of git.
_SPECIAL: Final = re.compile(r"[\\*?\[\] ]")
_ESCAPED: Final = r"\\\g<0>"


class Ports:
    """The ports of work trees. Each is a file in a folder, so that other processes see it too."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def take(self, worktree: Path, names: Sequence[str]) -> dict[str, str]:
        """A port for each name. The same work tree gets the same ports, unless they are in use."""
        if not names:
            return {}
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        digest = hashlib.sha256(str(worktree).encode(errors="surrogateescape")).digest()
        start = int.from_bytes(digest[:4], "big") % _PORTS
        with (self._folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            candidates = (_FIRST_PORT + (start + step) % _PORTS for step in range(_PORTS))
            free = (port for port in candidates if self._is_free(port, worktree))
            taken = dict(zip(names, free, strict=False))
            if len(taken) < len(names):
                raise TreeUnavailable(
                    f"no port is free for {worktree}",
                    hint=f"stop programs that listen on ports from {_FIRST_PORT} up",
                )
            for port in taken.values():
                (self._folder / str(port)).write_text(str(worktree))
        return {name: str(port) for name, port in taken.items()}

    def release(self, worktree: Path) -> None:
        if self._folder.is_dir():
            for file in self._folder.iterdir():
                # Other processes release their ports at the same time.
                with contextlib.suppress(FileNotFoundError):
                    if file.name.isdigit() and file.read_text() == str(worktree):
                        file.unlink()

    def _is_free(self, port: int, worktree: Path) -> bool:
        try:
            holder = Path((self._folder / str(port)).read_text())
        except FileNotFoundError:
            holder = worktree
        if holder != worktree and holder.is_dir():
            return False
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                return False
        return True


async def exclude_from_git(worktree: Worktree, names: Sequence[str], file: Path) -> None:
    """Make git ignore copied files in this work tree: they often are secrets. The user's own
    exclude file still applies."""
    if not names:
        return
    output = await worktree.checkout.run(["config", "--type=path", "--get", "core.excludesFile"])
    if output.code == 0:
        user_file = Path(output.out.decode(errors="surrogateescape").strip())
    else:
        config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
        user_file = config / "git" / "ignore"
    await asyncio.to_thread(_write_excludes, file, user_file, names)
    await set_worktree_config(worktree, "core.excludesFile", str(file))


def copy_files(source: Path, worktree: Path, names: Sequence[str]) -> None:
    """Copy files from the repository's folder into the work tree. Paths that lead out of either
    are refused."""
    for name in names:
        original = _inside(source, name)
        copy = _inside(worktree, name)
        try:
            mode = original.stat().st_mode
        except OSError:
            raise _cannot_copy(name, f"it is not in {source}") from None
        if not stat.S_ISREG(mode):
            raise _cannot_copy(name, "it is not a regular file")
        if copy.exists():
            raise _cannot_copy(name, "a file of this name is in git")
        copy.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file, original.open("rb") as content:
            shutil.copyfileobj(content, file)
            os.fchmod(file.fileno(), stat.S_IMODE(mode) & 0o777)


async def run_setup(worktree: Worktree, repo: PlanRepo) -> None:
    """Run the set-up commands. Raises TreeUnavailable with the end of the output if one fails."""
    environment = plain_environment() | worktree.environment
    limits = Limits(
        seconds=repo.setup_timeout,
        megabytes=repo.verification.command_megabytes,
        output_bytes=_OUTPUT_CHARACTERS,
    )
    for text in repo.setup:
        try:
            argv = parse_command(text)
        except ValueError as error:
            raise TreeUnavailable(str(error), field="setup") from error
        result = await run_command(argv, worktree.path, limits, environment)
        if result.exit_code != 0:
            raise TreeUnavailable(
                f"the set-up of {worktree.name} failed: {text}: {result.message}\n"
                f"{result.output_tail[-_OUTPUT_CHARACTERS:]}".rstrip(),
                field="setup",
                hint="it runs without a shell in a new work tree; try it in a fresh clone",
                facts={"command": text, "exit_code": result.exit_code},
            )


def _write_excludes(file: Path, user_file: Path, names: Sequence[str]) -> None:
    user_lines = user_file.read_text(errors="surrogateescape") if user_file.is_file() else ""
    lines = "".join(f"/{_SPECIAL.sub(_ESCAPED, os.path.normpath(name))}\n" for name in names)
    file.write_text(f"{user_lines.rstrip()}\n{lines}".lstrip(), errors="surrogateescape")


def _inside(folder: Path, name: str) -> Path:
    """The resolved path. Links that lead out of the folder are refused."""
    root = folder.resolve()
    path = (root / name).resolve()
    if Path(name).is_absolute() or not path.is_relative_to(root) or path == root:
        raise _cannot_copy(name, f"it leads out of {folder}")
    if ".git" in path.relative_to(root).parts:
        raise _cannot_copy(name, "it belongs to git")
    return path


def _cannot_copy(name: str, reason: str) -> TreeUnavailable:
    return TreeUnavailable(
        f"{name} cannot be copied into the work tree: {reason}",
        field="copy",
        hint="name files in the repository's folder that are not in git",
    )
