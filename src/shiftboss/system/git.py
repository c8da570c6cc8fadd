"""Running git so that nothing in a worker's repository influences what it does or prints.

A git process must not outlive this one, however this one ends. Linux could send a signal to a git
when its parent dies, but not to the processes that the git has started. So a small process, the
reaper, knows the process groups of all git processes and kills them; see git_reaper.py.
"""

from __future__ import annotations

import asyncio
import os
import resource
import secrets
import shutil
import sys
import threading
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

from shiftboss.errors import EvidenceElsewhere, EvidenceUnavailable
from shiftboss.system.processes.child_process import (
    OutputTooLargeError,
    exchange,
    kill_group,
    start_process,
)
from shiftboss.system.processes.niceness import lower_priority
from shiftboss.system.processes.orphans import ORPHANS

GIT_SECONDS: Final = 60.0
# Enough for the names of some hundred thousand files. A tree can be made that unfolds to billions.
OUTPUT_BYTES_MAX: Final = 64 * 1024 * 1024
ERROR_BYTES_MAX: Final = 64 * 1024
# Git holds a diff in memory until it is complete, and a worker can make one of any size.
MEMORY_BYTES_MAX: Final = 2 * 1024 * 1024 * 1024

# In the environment of every git: see git_reaper.py.
_MARK: Final = "SHIFTBOSS_GIT"
_CONFIG: Final = Path(__file__).with_name("git.config")
_REAPER_PROGRAM: Final = str(Path(__file__).parent / "processes" / "git_reaper.py")
# What a fetch over ssh or through a proxy needs of our own environment.
_PASSED_VARIABLES: Final = (
    *("PATH", "SSH_AUTH_SOCK", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE"),
)


class GitOutput(NamedTuple):
    code: int
    out: bytes
    err: str

    @property
    def first_error(self) -> str:
        """The first line that is an error. Git prints advice and warnings before it, its own and
        those of the git that it fetches from."""
        lines = [line.removeprefix("remote: ").strip() for line in self.err.splitlines()]
        lines = [line for line in lines if line]
        others = [line for line in lines if not line.startswith(("hint:", "warning:"))]
        errors = [line for line in others if line.startswith(("fatal:", "error:"))]
        return (errors or others or lines or [f"exit code {self.code}"])[0][:300]


async def git(
    arguments: Sequence[str],
    folder: Path,
    *,
    stdin: bytes = b"",
    seconds: float = GIT_SECONDS,
    environment: Mapping[str, str] | None = None,
) -> GitOutput:
    """Run git in `folder`. `environment` is added to the scrubbed one."""
    async with running_git(arguments, folder, environment, has_stdin=bool(stdin)) as process:
        try:
            async with asyncio.timeout(seconds):
                code, out, err = await exchange(
                    process, stdin, output_max=OUTPUT_BYTES_MAX, error_max=ERROR_BYTES_MAX
                )
            return GitOutput(code, out, err.decode(errors="replace"))
        except TimeoutError:
            raise too_slow(arguments[0], seconds) from None
        except OutputTooLargeError as error:
            raise EvidenceUnavailable(
                f"git {arguments[0]} printed more than {error.bytes_max} bytes",
                hint="the repository is too large to verify",
            ) from None


def too_slow(command: str, seconds: float) -> EvidenceUnavailable:
    return EvidenceUnavailable(f"git {command} did not end within {seconds:.0f} seconds")


@asynccontextmanager
async def running_git(
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str] | None = None,
    *,
    has_stdin: bool,
    stderr: int = asyncio.subprocess.PIPE,
    line_bytes_max: int = 2**16,
) -> AsyncIterator[Process]:
    """A git process that is killed at the end, unless it has ended."""
    program = shutil.which("git")
    if program is None:
        raise EvidenceElsewhere("git is not installed")
    mark = REAPER.expect()
    try:
        process = await start_process(
            (program, "--no-pager", "--literal-pathspecs", *arguments),
            kill_group,
            cwd=folder,
            env={**_environment(), **(environment or {}), _MARK: mark},
            stdin=asyncio.subprocess.PIPE if has_stdin else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            limit=line_bytes_max,
            # A group that can be killed as one. Not a session: Linux may share processor time
            # among sessions, and then niceness counts only within each of them.
            process_group=0,
        )
    except BaseException as error:
        REAPER.forget(mark)
        if isinstance(error, OSError):
            raise EvidenceUnavailable(f"git cannot be run: {error.strerror}") from error
        raise
    REAPER.add(process.pid, mark)
    try:
        _restrain(process.pid)
        yield process
    finally:
        try:
            await kill_group(process)
        finally:
            REAPER.remove(process.pid)


def checked(output: GitOutput, what: str) -> bytes:
    """What git printed. Raises EvidenceUnavailable, with `what` it was about, if git failed."""
    if output.code != 0:
        raise EvidenceUnavailable(f"{what}: {output.first_error}")
    return output.out


def _environment() -> dict[str, str]:
    """Without our tokens, and without any settings of git."""
    passed = {name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ}
    return {
        **passed,
        "LC_ALL": "C",
        "HOME": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": str(_CONFIG),
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_GRAFT_FILE": "/dev/null",
        # A missing object is missing: git must not fetch it from a remote of the repository.
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
    }


def _restrain(pid: int) -> None:
    """Requests to the server go first, and memory is limited."""
    try:
        lower_priority(pid)
        if sys.platform == "linux":
            resource.prlimit(pid, resource.RLIMIT_DATA, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    except ProcessLookupError:
        pass  # it has ended


class GitReaper:
    """Tells the reaper which process groups exist, which takes microseconds. The reaper is started
    by the first call, and started again if it was killed. It hears of each git before it starts: we
    may be killed before we can tell its number."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        self._pipe: int | None = None

    def expect(self) -> str:
        """A mark for the environment of a git that is about to start."""
        mark = secrets.token_hex(16)
        with self._lock:
            self._write(f"?{mark}\n")
        return mark

    def forget(self, mark: str) -> None:
        with self._lock:
            self._write(f"!{mark}\n")

    def add(self, group: int, mark: str) -> None:
        with self._lock:
            self._groups.add(group)
            self._write(f"+{group}\n!{mark}\n")

    def remove(self, group: int) -> None:
        with self._lock:
            self._groups.discard(group)
            self._write(f"-{group}\n")

    def _write(self, line: str) -> None:
        if self._pipe is not None:
            try:
                os.write(self._pipe, line.encode())
            except BlockingIOError:
                pass  # it was stopped with a signal, and does not read
            except BrokenPipeError:
                os.close(self._pipe)
                self._pipe = None
        if self._pipe is None:
            self._pipe = _start_reaper(self._groups)
            os.write(self._pipe, line.encode())


def _start_reaper(groups: Iterable[int]) -> int:
    """Return the writing end of the reaper's input: when it closes, the reaper acts."""
    reading_end, writing_end = os.pipe()
    reaper = os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", _REAPER_PROGRAM],
        {},
        file_actions=[
            (os.POSIX_SPAWN_DUP2, reading_end, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ],
        # Signals that a terminal sends to our process group must not reach it.
        setsid=sys.platform == "linux",
    )
    ORPHANS.keep(reaper)
    os.close(reading_end)
    os.set_blocking(writing_end, False)
    os.write(writing_end, "".join(f"+{group}\n" for group in groups).encode())
    return writing_end


# One per process, because it acts when the process ends.
REAPER: Final = GitReaper()
