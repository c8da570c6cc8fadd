"""Processes below a process: who they are, what they use, and the end of them.

For the supervisor of a command and the guardian of an agent, which are programs of their own and
have to be there at once: the standard library alone.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import select
import signal
import struct
import sys
import time
from pathlib import Path
from typing import Final, NamedTuple

CHUNK_BYTES = 65_536
# After this long, what still lives cannot be ended: it belongs to another user, or hangs in a
# system call.
END_SECONDS = 10.0
END_PAUSE_SECONDS = 0.02

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
LIBC = ctypes.CDLL(None)
_KERNEL_LISTS_CHILDREN = Path(f"/proc/self/task/{os.getpid()}/children").exists()

_ROOT = str(Path(__file__).parents[2])
_PROGRAM = "import sys; sys.path.append(sys.argv[1]); from {} import main; main()"


class Process(NamedTuple):
    pid: int
    parent: int
    resident_bytes: int
    cpu_seconds: float


def program_argv(module: str, *arguments: str) -> list[str]:
    """The command line of a module with a `main`, without the packages of the installation and
    without the variables that steer Python."""
    return [sys.executable, "-I", "-S", "-c", _PROGRAM.format(module), _ROOT, *arguments]


def become_guardian() -> None:
    """Linux makes this process the parent of every orphan below it."""
    _control(PR_SET_CHILD_SUBREAPER, 1)
    close_to_others()


def close_to_others() -> None:
    """Those who run as the same user must not reach our memory, our environment or our end of a
    pipe."""
    _control(PR_SET_DUMPABLE, 0)


def limit_child(*, niceness: int, open_files: int, file_bytes: int) -> None:
    """Runs in the child, before the command takes its place.

    There is no limit on address space or data: runtimes reserve far more of it than they use (bun,
    sanitizers). Memory is measured instead, and if the machine runs short before that is noticed,
    the kernel ends the command and not the server.
    """
    _control(PR_SET_DUMPABLE, 1)  # inherited from us; without it /proc/self cannot be written
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_NOFILE, open_files)
    _lower(resource.RLIMIT_FSIZE, file_bytes)
    os.nice(niceness)
    set_own("oom_score_adj", 1000)
    _control(PR_SET_PDEATHSIG, signal.SIGKILL)


def set_own(name: str, value: int) -> None:
    """Where Linux has such a setting of a process."""
    try:
        Path("/proc/self", name).write_text(str(value))
    except OSError:
        pass


def _lower(limit: int, value: int) -> None:
    _, hard = resource.getrlimit(limit)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(limit, (value, value))


def _control(option: int, value: int) -> None:
    if sys.platform == "linux":
        LIBC.prctl(option, value, 0, 0, 0)


def descendants() -> list[Process]:
    """Everybody below this process, at a cost that does not grow with the rest of the machine.
    Empty where there is no /proc."""
    found: list[Process] = []
    waiting = children_of(os.getpid())
    while waiting:
        pid = waiting.pop()
        process = _read_process(pid)
        if process is not None:
            found.append(process)
            waiting += children_of(pid)
    return found


def children_of(pid: int) -> list[int]:
    """Each thread has children of its own."""
    if not _KERNEL_LISTS_CHILDREN:
        return [process.pid for process in _all_processes() if process.parent == pid]
    folder = f"/proc/{pid}/task"
    try:
        threads = os.listdir(folder)  # noqa: PTH208 - hot
    except OSError:
        return []
    return [int(pid) for thread in threads for pid in _read(f"{folder}/{thread}/children").split()]


def _all_processes() -> list[Process]:
    return [process for process in map(_read_process, process_numbers()) if process is not None]


def process_numbers() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - hot
    except OSError:
        return []


def _read(path: str) -> bytes:
    """Nothing of a process that is gone. Without the layers of a file object: a guardian does
    little else."""
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
    # The name of the program comes in brackets and may hold anything, also brackets.
    fields = stat[stat.rindex(b")") + 2 :].split()
    seconds = (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND
    return Process(pid, int(fields[1]), int(fields[21]) * PAGE_BYTES, seconds)


def parent_of(pid: int) -> int:
    process = _read_process(pid)
    return 0 if process is None else process.parent


def excess(processes: list[Process], megabytes: int, processes_max: int) -> str | None:
    """What there is too much of. Resident memory counts shared pages once for each process; where
    that is too much, the proportional share decides, which is exact and costs more."""
    bytes_max = megabytes * 2**20
    if len(processes) > processes_max:
        return "processes"
    if sum(process.resident_bytes for process in processes) <= bytes_max:
        return None
    return "memory" if sum(map(_proportional_bytes, processes)) > bytes_max else None


def _proportional_bytes(process: Process) -> int:
    try:
        rollup = Path("/proc", str(process.pid), "smaps_rollup").read_text()
    except OSError:
        return process.resident_bytes
    lines = [line for line in rollup.splitlines() if line.startswith("Pss:")]
    return int(lines[0].split()[1]) * 1024 if lines else 0


class Children:
    """All that is below a process that has become a guardian. `exit_code` is that of `leader`, the
    head of a group of its own."""

    def __init__(self, leader: int, alarm: int) -> None:
        self._leader = leader
        self._alarm = alarm
        self._gone = False
        self.exit_code: int | None = None

    def reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._gone = True
                return
            if pid == 0:
                return
            if pid == self._leader:
                self.exit_code = os.waitstatus_to_exitcode(status)

    def end(self) -> bool:
        """Whoever loses a parent becomes a child of this process, so to end all children until
        there are none ends everybody. Reading their numbers takes microseconds: even a process
        that forks and goes, again and again, is caught. A group cannot outrun the signal at all.
        """
        deadline = time.monotonic() + END_SECONDS
        send(-self._leader, signal.SIGKILL)
        self.reap()
        while not self._gone and time.monotonic() < deadline:
            for pid in children_of(os.getpid()):
                send(pid, signal.SIGKILL)
            select.select([self._alarm], [], [], END_PAUSE_SECONDS)
            empty(self._alarm)
            self.reap()
        return self._gone


def send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def wake_up_on(*signals: signal.Signals) -> int:
    """A descriptor that gets a byte, the number, for each signal."""
    alarm, alarm_end = os.pipe()
    os.set_blocking(alarm, False)
    os.set_blocking(alarm_end, False)
    signal.set_wakeup_fd(alarm_end, warn_on_full_buffer=False)
    for number in signals:
        signal.signal(number, lambda *_: None)
    return alarm


def empty(descriptor: int) -> bytes:
    """What can be read at once."""
    try:
        return os.read(descriptor, CHUNK_BYTES)
    except BlockingIOError:
        return b""


# Standing back behind whoever waits for an answer of the server, without standing still.


# A third of what others get: a machine full of builds must still come to a verdict in time.
NICENESS: Final = 10

SLICE_NANOSECONDS: Final = 100_000_000
_SET_ATTRIBUTES: Final = {"x86_64": 314, "aarch64": 274, "riscv64": 274}
# The kernel's struct sched_attr: size, policy, flags, niceness, priority, slice and two others.
_ATTRIBUTES: Final = struct.Struct("=IIQiIQQQ")


def stand_back(pid: int = 0) -> None:
    """This process and what it starts from now on, or another."""
    niceness = max(NICENESS, os.getpriority(os.PRIO_PROCESS, pid))
    os.setpriority(os.PRIO_PROCESS, pid, niceness)


def take_long_turns() -> None:
    """Have this process, and what it starts, run longer at a time and be interrupted by others.

    Niceness says who gets how much. It does not say when: Linux lets a process finish its turn of
    some milliseconds before one that wakes up goes on, unless that one asked for shorter turns. So
    this is asked for. Other systems, and a Linux that is older than 6.12, do as they always did.
    """
    call = _SET_ATTRIBUTES.get(platform.machine())
    if sys.platform != "linux" or call is None:
        return
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    wish = _ATTRIBUTES.pack(
        _ATTRIBUTES.size, os.SCHED_OTHER, 0, niceness, 0, SLICE_NANOSECONDS, 0, 0
    )
    ctypes.CDLL(None).syscall(call, 0, wish, 0)
