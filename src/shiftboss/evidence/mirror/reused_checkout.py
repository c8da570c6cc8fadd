"""One checkout for many runs with different files, each run as clean as in a checkout of its own.

Making a checkout and running the setup can take longer than the command itself. So what a run left
behind is removed, and the next run gets the same checkout. Git cannot be asked what has changed:
the code under test could have changed the `.git` of the checkout, and git runs what is configured
there. Nor does git know the files that the setup has made, and the home folder. So the state of
every file is noted before a run and compared after it:

- New files are deleted.
- If a run changed or deleted anything that was there, even a file of the setup or in the home
  folder, the checkout is thrown away, and the next run gets a new one.

The kernel keeps the time of the last change of a file, which a program cannot set; so a change is
noticed although the content has the same length and the file its old modification time.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple

from shiftboss.errors import EvidenceUnavailable
from shiftboss.evidence.mirror.checkout import CheckoutWithSetup

# Comparing more files takes longer than a new checkout.
FILES_MAX: Final = 200_000
# Python compares modification times in whole seconds to tell whether a compiled file is outdated,
# and some build tools do, too.
_TICK_NS: Final = 2_000_000_000


class FileState(NamedTuple):
    """Folders have no times: they change with every file in them."""

    mode: int
    inode: int
    size: int = 0
    modified_ns: int = 0
    changed_ns: int = 0


class ReusedCheckout:
    """`make` makes a new checkout. Runs must not overlap."""

    def __init__(self, make: Callable[[], AbstractAsyncContextManager[CheckoutWithSetup]]) -> None:
        self._make = make
        self._stack = AsyncExitStack()
        self._checkout: CheckoutWithSetup | None = None
        self._states: dict[str, FileState] = {}

    async def __aenter__(self) -> ReusedCheckout:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._discard()

    @asynccontextmanager
    async def with_files(self, files: Mapping[str, bytes]) -> AsyncIterator[CheckoutWithSetup]:
        """The checkout with other contents of some of its files."""
        checkout = await self._clean_checkout()
        is_clean = False
        try:
            with _changing():
                originals = await asyncio.to_thread(self._lay_over, checkout.files, files)
            yield checkout
            with _changing():
                is_clean = await asyncio.to_thread(self._restore, checkout, originals)
        finally:
            if not is_clean:
                await self._discard()

    async def _clean_checkout(self) -> CheckoutWithSetup:
        if self._checkout is None:
            self._checkout = await self._stack.enter_async_context(self._make())
            self._states = await asyncio.to_thread(_states, self._checkout.checkout.folder)
        return self._checkout

    async def _discard(self) -> None:
        self._checkout = None
        await self._stack.aclose()

    def _lay_over(self, folder: Path, files: Mapping[str, bytes]) -> dict[Path, _Original]:
        originals = {}
        for name, content in files.items():
            path = folder / name
            state = path.lstat()
            originals[path] = _Original(path.read_bytes(), state.st_atime_ns, state.st_mtime_ns)
            _write(path, content)
            later = max(time.time_ns(), state.st_mtime_ns + _TICK_NS)
            os.utime(path, ns=(later, later), follow_symlinks=False)
            self._states[str(path)] = _state(path.lstat())
        return originals

    def _restore(self, checkout: CheckoutWithSetup, originals: Mapping[Path, _Original]) -> bool:
        """Whether the checkout is again as it was before the run."""
        before, after = self._states, _states(checkout.checkout.folder)
        if len(after) >= FILES_MAX or any(after.get(path) != before[path] for path in before):
            return False
        if not all(_remove(path) for path in after if path not in before):
            return False
        for path, original in originals.items():
            _write(path, original.content)
            os.utime(path, ns=(original.accessed_ns, original.modified_ns), follow_symlinks=False)
            self._states[str(path)] = _state(path.lstat())
        return True


@contextmanager
def _changing() -> Iterator[None]:
    """Not around the command itself, whose errors are others."""
    try:
        yield
    except OSError as error:
        raise EvidenceUnavailable(f"the checkout cannot be changed: {error}") from error


class _Original(NamedTuple):
    content: bytes
    accessed_ns: int
    modified_ns: int


def _write(path: Path, content: bytes) -> None:
    """Write an existing file, and keep its mode."""
    descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _states(folder: Path) -> dict[str, FileState]:
    """The state of everything in the folder, up to a limit."""
    states: dict[str, FileState] = {}
    for entry in _entries(str(folder)):
        states[entry.path] = _state(entry.stat(follow_symlinks=False))
        if len(states) >= FILES_MAX:
            break
    return states


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    pending = [folder]
    while pending:
        try:
            listing = os.scandir(pending.pop())
        except PermissionError:
            continue  # its mode was changed, which is noticed
        with listing:
            for entry in listing:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                yield entry


def _state(status: os.stat_result) -> FileState:
    if stat.S_ISDIR(status.st_mode):
        return FileState(status.st_mode, status.st_ino)
    return FileState(
        status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    )


def _remove(path: str) -> bool:
    """Whether it is gone, perhaps with the folder that it was in."""
    try:
        if stat.S_ISDIR(os.lstat(path).st_mode):
            shutil.rmtree(path)
        else:
            Path(path).unlink()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:  # a read-only folder, for example
        return False
    return True
