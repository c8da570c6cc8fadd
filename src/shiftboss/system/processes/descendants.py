"""The descendants of a process: listing them, limiting them, measuring them, killing them.

For the supervisor of a command and the guardian of an agent. They are separate programs that must
start within milliseconds, so this module uses only the standard library, without pathlib.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import select
import signal
import sys
import time
from typing import NamedTuple

CHUNK_BYTES = 65_536
# A process that lives longer than this cannot be killed: it belongs to another user, or hangs in a
# system call.
END_SECONDS = 10.0
END_PAUSE_SECONDS = 0.02

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36

# keyctl(2) has no function in the C library, and another number on each architecture.
_KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "ppc64le": 271, "s390x": 280}
_JOIN_SESSION_KEYRING = 1
# The kernel has no keyrings, or a container denies them: then no command has them either.
_NO_KEYRINGS = (errno.ENOSYS, errno.EPERM)

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
LIBC = ctypes.CDLL(None, use_errno=True)
_KERNEL_LISTS_CHILDREN = os.path.exists(f"/proc/self/task/{os.getpid()}/children")  # noqa: PTH110

_ROOT = os.path.abspath(f"{__file__}/../../../..")  # noqa: PTH100
# Garbage collection while importing, and the cleanup of the interpreter, would take a fifth of the
# time of a short command.
_PROGRAM = (
    "import gc, os, sys; gc.disable(); sys.path.append(sys.argv[1]); from {} import main; "
    "gc.enable(); main(); sys.stdout.flush(); os._exit(0)"
)


class Process(NamedTuple):
    pid: int
    parent: int
    resident_bytes: int
    cpu_seconds: float


def module_argv(module: str, *arguments: str) -> list[str]:
    """The command line that runs the `main` of a module of ours, isolated from site packages and
    from Python's environment variables."""
    return [sys.executable, "-I", "-S", "-c", _PROGRAM.format(module), _ROOT, *arguments]


def python_argv(module: str, *arguments: str) -> list[str]:
    """The command line that runs a module of ours with its dependencies. `-P` keeps modules in the
    current folder from being imported: it may be an agent's, or that of a cloned repository."""
    return [sys.executable, "-P", "-m", module, *arguments]


def become_subreaper() -> None:
    """Make this process the parent of every orphan below it (Linux only)."""
    control_process(PR_SET_CHILD_SUBREAPER, 1)
    deny_inspection()


def deny_inspection() -> None:
    """Keep processes of the same user from reading our memory, our environment and our pipes."""
    control_process(PR_SET_DUMPABLE, 0)


def limit_child(*, niceness: int, open_files: int, file_bytes: int) -> None:
    """Set the limits of a command. Runs in the child, before the command is executed.

    There is no limit on address space or data: runtimes such as bun, and sanitizers, reserve far
    more than they use. Memory is measured instead. If the machine runs out of memory before that
    is noticed, the kernel kills the command and not the server.
    """
    control_process(PR_SET_DUMPABLE, 1)  # 0 is inherited from us and makes /proc/self read-only
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_NOFILE, open_files)
    _lower(resource.RLIMIT_FSIZE, file_bytes)
    os.nice(niceness)
    set_proc_self("oom_score_adj", 1000)
    control_process(PR_SET_PDEATHSIG, signal.SIGKILL)


def set_proc_self(name: str, value: int) -> None:
    """Write a file of /proc/self, if Linux has it."""
    try:
        write_file(f"/proc/self/{name}", str(value))
    except OSError:
        pass


def write_file(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _lower(limit: int, value: int) -> None:
    _, hard = resource.getrlimit(limit)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(limit, (value, value))


def control_process(option: int, value: int) -> None:
    """Call prctl(2), if Linux has it."""
    if sys.platform == "linux":
        LIBC.prctl(option, value, 0, 0, 0)


def leave_session_keyring() -> None:
    """Give this process an empty session keyring. It would inherit ours, and namespaces do not
    separate keyrings: what one command leaves there, the next one could read. Raises OSError."""
    number = _KEYCTL.get(os.uname().machine) if sys.platform == "linux" else None
    if number is None or sys.maxsize < 2**32:  # a 32-bit process has other numbers
        return
    joined = LIBC.syscall(ctypes.c_long(number), ctypes.c_long(_JOIN_SESSION_KEYRING), None)
    error = ctypes.get_errno()
    if joined == -1 and error not in _NO_KEYRINGS:
        raise OSError(error, f"a new session keyring: {os.strerror(error)}")


def descendants() -> list[Process]:
    """All processes below this one, at a cost that does not depend on the other processes of the
    machine. Empty where there is no /proc."""
    processes: list[Process] = []
    pending = children_of(os.getpid())
    while pending:
        pid = pending.pop()
        process = _read_process(pid)
        if process is not None:
            processes.append(process)
            pending += children_of(pid)
    return processes


def children_of(pid: int) -> list[int]:
    """The children of all threads of a process."""
    if not _KERNEL_LISTS_CHILDREN:
        return [process.pid for process in _all_processes() if process.parent == pid]
    folder = f"/proc/{pid}/task"
    try:
        threads = os.listdir(folder)  # noqa: PTH208 - hot
    except OSError:
        return []
    return [int(pid) for thread in threads for pid in _read(f"{folder}/{thread}/children").split()]


def _all_processes() -> list[Process]:
    return [process for process in map(_read_process, all_pids()) if process is not None]


def all_pids() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - hot
    except OSError:
        return []


def _read(path: str) -> bytes:
    """Empty if the process is gone. Without a file object, because a guardian does little else."""
    text = b""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return text
    try:
        while chunk := os.read(descriptor, CHUNK_BYTES):
            text += chunk
    except OSError:
        pass
    finally:
        os.close(descriptor)
    return text


def _read_process(pid: int) -> Process | None:
    stat = _read(f"/proc/{pid}/stat")
    if not stat:
        return None
    # The name of the program is in brackets and may contain anything, also brackets.
    fields = stat[stat.rindex(b")") + 2 :].split()
    seconds = (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND
    return Process(pid, int(fields[1]), int(fields[21]) * PAGE_BYTES, seconds)


def start_ticks(pid: int) -> int | None:
    """When a process was started, in ticks since the system was; None if there is no such process.
    With its id, this identifies a process for good."""
    stat = _read(f"/proc/{pid}/stat")
    fields = stat[stat.rindex(b")") + 2 :].split() if stat else []
    return int(fields[19]) if fields and fields[0] != b"Z" else None


def parent_of(pid: int) -> int:
    process = _read_process(pid)
    return 0 if process is None else process.parent


def exceeded_limit(processes: list[Process], megabytes: int, processes_max: int) -> str | None:
    """Which limit is exceeded: "processes" or "memory".

    Resident memory counts shared pages once per process. Only if that sum is too high is the
    proportional share read, which is exact and costs more.
    """
    bytes_max = megabytes * 2**20
    if len(processes) > processes_max:
        return "processes"
    if sum(process.resident_bytes for process in processes) <= bytes_max:
        return None
    return "memory" if sum(map(_proportional_bytes, processes)) > bytes_max else None


def _proportional_bytes(process: Process) -> int:
    rollup = _read(f"/proc/{process.pid}/smaps_rollup")
    lines = [line for line in rollup.splitlines() if line.startswith(b"Pss:")]
    return int(lines[0].split()[1]) * 1024 if lines else process.resident_bytes


class Children:
    """All descendants of a guardian. `leader` leads a process group; `exit_code` is its own."""

    def __init__(self, leader: int, signals: int) -> None:
        self._leader = leader
        self._signals = signals
        self._all_gone = False
        self.exit_code: int | None = None

    def reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._all_gone = True
                return
            if pid == 0:
                return
            if pid == self._leader:
                self.exit_code = os.waitstatus_to_exitcode(status)

    def end(self) -> bool:
        """Kill all descendants; whether none is left.

        A process that loses its parent becomes a child of this one, so killing all children until
        there are none kills all descendants. Listing them takes microseconds, so even a process
        that forks and exits again and again is caught. The leader's group gets one signal at once.
        """
        deadline = time.monotonic() + END_SECONDS
        send_signal(-self._leader, signal.SIGKILL)
        self.reap()
        while not self._all_gone and time.monotonic() < deadline:
            for pid in children_of(os.getpid()):
                send_signal(pid, signal.SIGKILL)
            select.select([self._signals], [], [], END_PAUSE_SECONDS)
            read_available(self._signals)
            self.reap()
        return self._all_gone


def send_signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def open_signal_pipe(*signals: signal.Signals) -> int:
    """A descriptor from which the number of each received signal can be read, one byte each."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in signals:
        signal.signal(number, lambda *_: None)
    return reader


def read_available(descriptor: int) -> bytes:
    """What can be read without waiting."""
    try:
        return os.read(descriptor, CHUNK_BYTES)
    except BlockingIOError:
        return b""
