"""The sandbox of commands: the files they see and may write, and the mechanism on this machine.

There are two ways to the same mounts: our own (namespaces.py), and the program bubblewrap for
machines that allow namespaces to that program only, or have an older kernel.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple
from weakref import WeakKeyDictionary

from shiftboss.defaults import OPERATOR_TOKEN_FILE, STATE_FOLDER
from shiftboss.evidence.commands.command import CommandSandbox, Limits, run_command
from shiftboss.evidence.commands.namespaces import Mount, Namespaces

BackendName = Literal["namespaces", "bubblewrap"]

# The private memory disk of a command. Its contents do not count as memory of a process.
SHARED_MEMORY_MEGABYTES: Final = 1024
# Generous: on a busy machine, the trial must not fail because of the time.
_TRIAL_LIMITS: Final = Limits(seconds=60, megabytes=512)
RETRY_SECONDS: Final = 60.0
_TEMPORARY_FOLDERS: Final = ("/tmp", "/var/tmp")  # noqa: S108
_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108

# Credentials that programs keep in the home folder, of agents, forges, clouds and registries. The
# rest of the home folder can be read: toolchains are there, and packages installed from a folder.
_SECRETS: Final = """
    .ssh .gnupg .netrc .git-credentials .password-store .local/share/keyrings
    .claude .claude.json .codex .gemini .config/opencode .local/share/opencode .config/goose
    .config/gh .config/glab-cli .config/hub .config/tea
    .aws .azure .config/gcloud .kube .docker .terraform.d
    .npmrc .yarnrc.yml .pypirc .config/pip .cargo/credentials .cargo/credentials.toml
"""
# Sockets of services that start processes outside of the sandbox. A read-only mount does not keep
# anybody from connecting to a socket.
_SERVICES: Final = """
    /run/user /run/dbus /run/systemd/private /run/docker.sock /run/docker /run/containerd
    /run/podman /run/crio /run/libvirt /run/snapd.socket /run/lxd.socket
"""


# A server's own files in a state folder that it shares with others.
_STATE: Final = (
    "*.db",
    "*.db-*",
    "*.pem",
    OPERATOR_TOKEN_FILE,
    "server.json",
    "verification",
    "ci",
)


class Containment(NamedTuple):
    """The rights of a command. The rest of the system can be read.

    `hidden` folders and files are empty, `writable` and `readable` folders inside of them are not.
    `temporary` stands for the folders of the system for temporary files.
    """

    writable: Sequence[Path]
    temporary: Path
    hidden: Sequence[Path] = ()
    readable: Sequence[Path] = ()
    network: bool = False


class Backend(NamedTuple):
    """The containment on this machine; without a name there is none, for the given reason."""

    name: BackendName | None
    program: str = ""
    reason: str = ""


def contain(backend: Backend, containment: Containment) -> CommandSandbox:
    mounts = mounts_of(containment)
    if backend.name == "namespaces":
        return CommandSandbox("namespaces", namespaces=Namespaces(mounts, containment.network))
    if backend.name == "bubblewrap":
        wrapper = bubblewrap_argv(backend.program, mounts, network=containment.network)
        return CommandSandbox("bubblewrap", wrapper=wrapper)
    return CommandSandbox(f"none: {backend.reason}")


def mounts_of(containment: Containment) -> list[Mount]:
    """Each mount after those that it is inside of."""
    mounts = {_SHARED_MEMORY: Mount("memory", _SHARED_MEMORY, "", SHARED_MEMORY_MEGABYTES)}
    hidden = [path for path in (*containment.hidden, *_usual_secrets()) if _can_see(path)]
    for path in map(os.path.realpath, hidden):
        mounts[path] = (
            Mount("empty", path) if Path(path).is_dir() else Mount("read", path, os.devnull)
        )
    for path in map(os.path.realpath, _TEMPORARY_FOLDERS):
        if _can_see(path):
            mounts[path] = Mount("write", path, os.path.realpath(containment.temporary))
    for path in map(os.path.realpath, [*containment.readable, *_tools_in_temporary_folders()]):
        mounts.setdefault(path, Mount("read", path, path))
    for path in map(os.path.realpath, containment.writable):
        mounts[path] = Mount("write", path, path)
    return [mounts[path] for path in sorted(mounts, key=lambda path: path.split("/"))]


def _can_see(path: str | Path) -> bool:
    """Whether the path exists and is visible to us: a path that we cannot see, no command can."""
    return os.access(path, os.F_OK)


def state_paths(folder: Path) -> list[Path]:
    """The parts of a state folder that are hidden from commands. A database can also be in a folder
    with other files, even in that of a project with its tools."""
    if folder.name == STATE_FOLDER:
        return [folder]
    return [path for pattern in _STATE for path in folder.glob(pattern)]


def secret_paths(folder: Path, files: Sequence[Path]) -> list[Path]:
    """The same, and files that are elsewhere. In an empty folder there is nothing to hide."""
    hidden = state_paths(folder)
    empty = {os.path.realpath(path) for path in (*hidden, *_usual_secrets()) if path.is_dir()}
    return [
        *hidden,
        *(
            file
            for file in files
            if empty.isdisjoint(map(str, Path(os.path.realpath(file)).parents))
        ),
    ]


def _usual_secrets() -> list[Path]:
    """With the checkouts of all servers of this user, the work trees of all agents, and the state
    of a server in the home folder."""
    home = Path.home()
    checkouts = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "shiftboss"
    trees = Path(os.environ.get("XDG_STATE_HOME") or home / ".local" / "state") / "shiftboss"
    secrets = [home / name for name in (*_SECRETS.split(), STATE_FOLDER)]
    return [*secrets, checkouts, trees, *map(Path, _SERVICES.split())]


def _tools_in_temporary_folders() -> list[Path]:
    """Folders with programs that would be hidden with the temporary folders, such as a virtual
    environment in /tmp: those on PATH, and our own. A `bin` belongs to the folder around it."""
    roots = [Path(os.path.realpath(name)) for name in (*_TEMPORARY_FOLDERS, _SHARED_MEMORY)]
    entries = os.environ.get("PATH", os.defpath).split(os.pathsep)
    folders = [Path(sys.prefix)]
    for folder in map(Path, entries):
        is_part = folder.name == "bin" and folder.parent not in roots
        folders.append(folder.parent if is_part else folder)
    return [
        folder
        for folder in folders
        if _can_see(folder) and not set(roots).isdisjoint(folder.parents)
    ]


def bubblewrap_argv(program: str, mounts: Iterable[Mount], *, network: bool) -> list[str]:
    argv = [
        *(program, "--unshare-user", "--unshare-pid", "--unshare-ipc", "--die-with-parent"),
        *("--new-session", "--cap-drop", "ALL", "--ro-bind", "/", "/"),
        *("--dev", "/dev", "--proc", "/proc"),
    ]
    if not network:
        argv.append("--unshare-net")
    for mount in mounts:
        argv += _bubblewrap_mount(mount)
    for mount in mounts:
        if mount.kind == "empty":
            argv += ["--remount-ro", mount.target]
    return [*argv, "--"]


def _bubblewrap_mount(mount: Mount) -> list[str]:
    if mount.kind in ("empty", "memory"):
        return ["--tmpfs", mount.target]  # older versions have no --size
    return ["--bind" if mount.kind == "write" else "--ro-bind", mount.source, mount.target]


class BackendSearch:
    """Remembers what was found. That nothing was found holds for a minute only: a trial can fail
    because the machine is busy, and commands must not stay uncontained because of it."""

    def __init__(
        self, attempt: Callable[[], Awaitable[Backend]], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._attempt = attempt
        self._now = now
        self._found: Backend | None = None
        self._found_at = 0.0
        # A lock belongs to an event loop, and a process can have several one after the other.
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
            WeakKeyDictionary()
        )

    async def backend(self) -> Backend:
        """Callers at the same time share one trial."""
        async with self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            if self._found is None or self._is_outdated(self._found):
                self._found = await self._attempt()
                self._found_at = self._now()
            return self._found

    def _is_outdated(self, found: Backend) -> bool:
        return found.name is None and self._now() - self._found_at >= RETRY_SECONDS


async def find_backend() -> Backend:
    """The containment of commands here. Tried out with a real command, in each process."""
    return await _search.backend()


async def _try_backends() -> Backend:
    if sys.platform != "linux":
        return Backend(None, reason="this system has no namespaces")
    own = Backend("namespaces")
    failure = await _failure_of(own)
    if failure is None:
        return own
    program = shutil.which("bwrap")
    if program is None:
        return Backend(None, reason=f"{failure}, and bubblewrap is not installed")
    bubblewrap = Backend("bubblewrap", program)
    other_failure = await _failure_of(bubblewrap)
    if other_failure is None:
        return bubblewrap
    return Backend(None, reason=f"{failure}; bubblewrap: {other_failure}")


async def _failure_of(backend: Backend) -> str | None:
    """Why a harmless command cannot be run, or None if it can."""
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="shiftboss-sandbox-"))
    try:
        containment = Containment(writable=[folder], temporary=folder)
        environment = {"PATH": os.environ.get("PATH", os.defpath)}
        sandbox = await asyncio.to_thread(contain, backend, containment)
        result = await run_command(["true"], folder, _TRIAL_LIMITS, environment, sandbox)
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    if result.exit_code == 0:
        return None
    lines = result.output_tail.strip().splitlines()
    return (lines[-1] if lines else result.message)[:200]


_search = BackendSearch(_try_backends)
