"""Containing a command with the namespaces of Linux, without another program.

`enter` runs in the child that the supervisor has forked, and returns in a grandchild that is about
to become the command. Three processes then belong to the command:

- the relay, in the PID namespace of the supervisor, which passes the end of the command on;
- the init of the new PID namespace: when it ends, the kernel kills everything in there;
- the command, which sees neither the relay nor the supervisor, and has no capability.

Like the supervisor, it uses only the standard library.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import signal
import struct
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, NoReturn

from shiftboss.system.processes.descendants import (
    LIBC,
    PR_SET_PDEATHSIG,
    control_process,
    write_file,
)

# `empty`: an empty, read-only folder in memory. `memory`: one that the command can
# write to. `read` and `write`: the source, wherever it was before other mounts covered it.
MountKind = Literal["empty", "memory", "read", "write"]

_NEW_USER: Final = 0x10000000
_NEW_MOUNTS: Final = 0x00020000
_NEW_PIDS: Final = 0x20000000
_NEW_IPC: Final = 0x08000000
_NEW_NETWORK: Final = 0x40000000

_NO_SUID: Final = 2
_NO_DEVICES: Final = 4
_NO_EXECUTION: Final = 8
_BIND: Final = 4096
_RECURSIVE: Final = 16384
_PRIVATE: Final = 1 << 18

# mount_setattr(2) has the same number on all architectures, and no function in older C libraries.
_MOUNT_SETATTR: Final = 442
_AT_CURRENT_FOLDER: Final = -100
_AT_RECURSIVE: Final = 0x8000
_ATTRIBUTE_READ_ONLY: Final = 1
_ATTRIBUTE_NO_SUID: Final = 2

_PR_CAPBSET_DROP: Final = 24
_PR_SET_NO_NEW_PRIVS: Final = 38
_CAPABILITIES_VERSION: Final = 0x20080522
_CAPABILITIES_MAX: Final = 64

_GET_INTERFACE_FLAGS: Final = 0x8913
_SET_INTERFACE_FLAGS: Final = 0x8914
_INTERFACE_UP: Final = 1

_DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_LINKS: Final = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}
# Root could change the running system through these.
_PROC_READ_ONLY: Final = ("sys", "sysrq-trigger", "irq", "bus", "fs")
_STATUS: Final = struct.Struct("=i")
_DESCRIPTORS_MAX: Final = 4096


class Mount(NamedTuple):
    """`size_megabytes` limits a folder in memory."""

    kind: MountKind
    target: str
    source: str = ""
    size_megabytes: int = 1


class Namespaces(NamedTuple):
    """Everything that is not mentioned in `mounts` is read-only. A mount comes after those that it
    is inside of."""

    mounts: Sequence[Mount]
    network: bool


def enter(namespaces: Namespaces, folder: str) -> None:
    """Return in the command's process, contained, in the folder. Raises OSError where the machine
    does not allow it."""
    _unshare(namespaces.network)
    reading_end, writing_end = os.pipe()
    init = os.fork()
    if init != 0:
        _relay(init, reading_end)
    control_process(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()
    _arrange(namespaces)
    command = os.fork()
    if command != 0:
        _reap(command, writing_end)
    # A group of its own: a signal to the group must not reach the relay.
    os.setsid()
    os.chdir(folder)
    _drop_capabilities()


def _unshare(network: bool) -> None:
    user, group = os.geteuid(), os.getegid()
    flags = _NEW_USER | _NEW_MOUNTS | _NEW_PIDS | _NEW_IPC
    _call("unshare", LIBC.unshare(flags if network else flags | _NEW_NETWORK))
    # The kernel forgets this when the credentials change.
    control_process(PR_SET_PDEATHSIG, signal.SIGKILL)
    write_file("/proc/self/setgroups", "deny")
    write_file("/proc/self/uid_map", f"{user} {user} 1")
    write_file("/proc/self/gid_map", f"{group} {group} 1")
    if not network:
        _raise_loopback()


def _raise_loopback() -> None:
    from socket import AF_INET, SOCK_DGRAM, socket  # late: not for a command with the network

    with socket(AF_INET, SOCK_DGRAM) as handle:
        request = struct.pack("16sh22x", b"lo", 0)
        name, flags = struct.unpack("16sh22x", fcntl.ioctl(handle, _GET_INTERFACE_FLAGS, request))
        fcntl.ioctl(
            handle, _SET_INTERFACE_FLAGS, struct.pack("16sh22x", name, flags | _INTERFACE_UP)
        )


def _relay(init: int, reading_end: int) -> NoReturn:
    """Wait for the init and end as the command did."""
    _keep_only(reading_end)
    reported = os.read(reading_end, _STATUS.size)
    os.waitpid(init, 0)
    code = _STATUS.unpack(reported)[0] if len(reported) == _STATUS.size else -signal.SIGKILL
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)  # Python ignores some
        os.kill(os.getpid(), -code)
    os._exit(code)


def _reap(command: int, writing_end: int) -> NoReturn:
    """The init: adopts and reaps every orphan, and ends when the command has ended. It ignores all
    signals from inside of its namespace."""
    _keep_only(writing_end)
    pid = status = 0
    while pid != command:
        pid, status = os.waitpid(-1, 0)
    os.write(writing_end, _STATUS.pack(os.waitstatus_to_exitcode(status)))
    os._exit(0)


def _keep_only(descriptor: int) -> None:
    """Close all other descriptors, which the supervisor waits for, and handle no signal."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    os.closerange(0, descriptor)
    os.closerange(descriptor + 1, _DESCRIPTORS_MAX)


def _arrange(namespaces: Namespaces) -> None:
    """Make the mounts. The sources are opened first, because mounts cover one another."""
    _mount(None, "/", _RECURSIVE | _PRIVATE)
    devices = {name: _open(f"/dev/{name}") for name in _DEVICES}
    sources = {mount.source: _open(mount.source) for mount in namespaces.mounts if mount.source}
    _set_attributes("/", set_bits=_ATTRIBUTE_READ_ONLY | _ATTRIBUTE_NO_SUID, flags=_AT_RECURSIVE)
    _make_devices(devices)
    for mount in namespaces.mounts:
        _make(mount, sources)
    for mount in namespaces.mounts:
        if mount.kind == "empty":
            _set_attributes(mount.target, set_bits=_ATTRIBUTE_READ_ONLY)
    _make_proc()
    for descriptor in (*devices.values(), *sources.values()):
        os.close(descriptor)


def _make(mount: Mount, sources: dict[str, int]) -> None:
    if mount.kind in ("empty", "memory"):
        _make_memory(mount.target, f"mode=0755,size={mount.size_megabytes}m")
        return
    _bind(sources[mount.source], mount.target)
    if mount.kind == "write":
        _set_attributes(mount.target, clear_bits=_ATTRIBUTE_READ_ONLY)


def _make_memory(target: str, options: str) -> None:
    os.makedirs(target, exist_ok=True)  # noqa: PTH103 - hot
    _mount("tmpfs", target, _NO_SUID | _NO_DEVICES, kind="tmpfs", options=options)


def _make_devices(devices: dict[str, int]) -> None:
    """The devices that every program expects, and terminals of its own. Root could read disks."""
    _mount("tmpfs", "/dev", _NO_SUID, kind="tmpfs", options="mode=0755,size=1m")
    for name, descriptor in devices.items():
        _bind(descriptor, f"/dev/{name}")
        _set_attributes(f"/dev/{name}", clear_bits=_ATTRIBUTE_READ_ONLY)
    for name, target in _DEVICE_LINKS.items():
        os.symlink(target, f"/dev/{name}")  # noqa: PTH211 - hot
    os.mkdir("/dev/pts")  # noqa: PTH102 - hot
    options = "newinstance,ptmxmode=0666,mode=0620"
    _mount("devpts", "/dev/pts", _NO_SUID | _NO_EXECUTION, kind="devpts", options=options)


def _make_proc() -> None:
    """The processes of this PID namespace only."""
    _mount("proc", "/proc", _NO_SUID | _NO_DEVICES | _NO_EXECUTION, kind="proc")
    for name in _PROC_READ_ONLY:
        path = f"/proc/{name}"
        if os.path.exists(path):  # noqa: PTH110 - hot
            _mount(path, path, _BIND | _RECURSIVE)
            _set_attributes(path, set_bits=_ATTRIBUTE_READ_ONLY)


def _bind(source: int, target: str) -> None:
    """The folder or file behind a descriptor; the target is created if it is missing."""
    if not os.path.lexists(target):
        if _is_folder(source):
            os.makedirs(target)  # noqa: PTH103 - hot
        else:
            os.makedirs(os.path.dirname(target), exist_ok=True)  # noqa: PTH103, PTH120 - hot
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    _mount(f"/proc/self/fd/{source}", target, _BIND | _RECURSIVE)


def _is_folder(descriptor: int) -> bool:
    return os.fstat(descriptor).st_mode & 0o170000 == 0o040000


def _open(path: str) -> int:
    return os.open(path, os.O_PATH | os.O_CLOEXEC)


def _drop_capabilities() -> None:
    """With them, the command could undo all this. Without new privileges, no program gets them."""
    for capability in range(_CAPABILITIES_MAX):
        if LIBC.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break  # the kernel has no more
    header = struct.pack("=Ii", _CAPABILITIES_VERSION, 0)
    _call("capset", LIBC.capset(header, bytes(24)))
    _call("prctl", LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def _mount(
    source: str | None, target: str, flags: int, kind: str | None = None, options: str | None = None
) -> None:
    arguments = [text.encode() if text is not None else None for text in (source, kind, options)]
    outcome = LIBC.mount(
        arguments[0], target.encode(), arguments[1], ctypes.c_ulong(flags), arguments[2]
    )
    _call(f"mount on {target}", outcome)


def _set_attributes(target: str, *, set_bits: int = 0, clear_bits: int = 0, flags: int = 0) -> None:
    attributes = struct.pack("=QQQQ", set_bits, clear_bits, 0, 0)
    outcome = LIBC.syscall(
        ctypes.c_long(_MOUNT_SETATTR),
        ctypes.c_long(_AT_CURRENT_FOLDER),
        target.encode(),
        ctypes.c_long(flags),
        attributes,
        ctypes.c_long(len(attributes)),
    )
    _call(f"mount_setattr on {target}", outcome)


def _call(what: str, outcome: int) -> None:
    if outcome != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def describe_failure(error: OSError) -> str:
    if error.errno == errno.ENOSYS:
        return "the kernel is older than Linux 5.12"
    return str(error.strerror or error)
