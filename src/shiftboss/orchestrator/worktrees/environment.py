"""What a work tree has beside the files of its commit: ports, files that git does not know, and
what its set-up commands make."""

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
from shiftboss.orchestrator.worktrees.git_hooks import set_own
from shiftboss.orchestrator.worktrees.worktree import Worktree
from shiftboss.protocol.plan import PlanRepo
from shiftboss.rules.claims.criteria import parse_command

# Below those that systems give to connections.
_FIRST_PORT: Final = 20_000
_PORTS: Final = 10_000
_OUTPUT_CHARACTERS: Final = 2000
# What has a meaning in a list of files that git passes over.
_SPECIAL: Final = re.compile(r"[\\*?\[\] ]")
_ESCAPED: Final = r"\\\g<0>"


class Ports:
    """Files in a folder, one for each port that a tree has: other processes see them, too."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def take(self, tree: Path, names: Sequence[str]) -> dict[str, str]:
        """The same ones for the same tree, if nobody else has them."""
        if not names:
            return {}
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        digest = hashlib.sha256(str(tree).encode(errors="surrogateescape")).digest()
        start = int.from_bytes(digest[:4], "big") % _PORTS
        with (self._folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            candidates = (_FIRST_PORT + (start + step) % _PORTS for step in range(_PORTS))
            free = (port for port in candidates if self._is_free(port, tree))
            taken = dict(zip(names, free, strict=False))
            if len(taken) < len(names):
                raise TreeUnavailable(f"no port is free for {tree}", hint="end what listens there")
            for port in taken.values():
                (self._folder / str(port)).write_text(str(tree))
        return {name: str(port) for name, port in taken.items()}

    def give_back(self, tree: Path) -> None:
        if self._folder.is_dir():
            for file in self._folder.iterdir():
                # Others give theirs back at the same time.
                with contextlib.suppress(FileNotFoundError):
                    if file.name.isdigit() and file.read_text() == str(tree):
                        file.unlink()

    def _is_free(self, port: int, tree: Path) -> bool:
        try:
            holder = Path((self._folder / str(port)).read_text())
        except FileNotFoundError:
            holder = tree
        if holder != tree and holder.is_dir():
            return False
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                return False
        return True


async def keep_out(tree: Worktree, names: Sequence[str], file: Path) -> None:
    """Copied files are secrets more often than not: git passes them over in this tree, like what
    the user's own list of such files names."""
    if not names:
        return
    said = await tree.checkout.run(["config", "--type=path", "--get", "core.excludesFile"])
    usual = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "git" / "ignore"
    theirs = Path(said.out.decode(errors="surrogateescape").strip()) if said.code == 0 else usual
    await asyncio.to_thread(_write_list, file, theirs, names)
    await set_own(tree, "core.excludesFile", str(file))


def copy_files(source: Path, tree: Path, names: Sequence[str]) -> None:
    """From the repository's folder into the tree, and nowhere else on either side."""
    for name in names:
        found = _inside(source, name)
        made = _inside(tree, name)
        try:
            mode = found.stat().st_mode
        except OSError:
            raise _no_copy(name, f"it is not in {source}") from None
        if not stat.S_ISREG(mode):
            raise _no_copy(name, "it is not a file")
        if made.exists():
            raise _no_copy(name, "git has a file of this name")
        made.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file, found.open("rb") as content:
            shutil.copyfileobj(content, file)
            os.fchmod(file.fileno(), stat.S_IMODE(mode) & 0o777)


async def set_up(tree: Worktree, repo: PlanRepo) -> None:
    """Raises TreeUnavailable with the end of what a command printed that failed."""
    environment = plain_environment() | tree.environment
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
        done = await run_command(argv, tree.path, limits, environment)
        if done.exit_code != 0:
            raise TreeUnavailable(
                f"the set-up of {tree.name} failed: {text}: {done.message}\n"
                f"{done.output_tail[-_OUTPUT_CHARACTERS:]}".rstrip(),
                field="setup",
                hint="it is run without a shell in a new work tree; try it in a fresh clone",
                facts={"command": text, "exit_code": done.exit_code},
            )


def _write_list(file: Path, theirs: Path, names: Sequence[str]) -> None:
    kept = theirs.read_text(errors="surrogateescape") if theirs.is_file() else ""
    own = "".join(f"/{_SPECIAL.sub(_ESCAPED, os.path.normpath(name))}\n" for name in names)
    file.write_text(f"{kept.rstrip()}\n{own}".lstrip(), errors="surrogateescape")


def _inside(folder: Path, name: str) -> Path:
    """The real place of it. Links that lead out of the folder are refused."""
    root = folder.resolve()
    path = (root / name).resolve()
    if Path(name).is_absolute() or not path.is_relative_to(root) or path == root:
        raise _no_copy(name, f"it leads out of {folder}")
    if ".git" in path.relative_to(root).parts:
        raise _no_copy(name, "it is git's own")
    return path


def _no_copy(name: str, reason: str) -> TreeUnavailable:
    return TreeUnavailable(
        f"{name} cannot be copied into the work tree: {reason}",
        field="copy",
        hint="name files in the repository's folder that git does not know",
    )
