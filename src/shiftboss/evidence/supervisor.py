"""Runs one command and leaves nothing of it behind.

A program of its own, started by commands.py as `python -I -S supervisor.py`: the standard library
alone, so that it is there in 30 ms. Its input brings the job, one line of JSON, and then stays open
as a lifeline: when it ends, the server is gone or has lost interest, and the command is ended. The
answer is one JSON document on its output.

Linux makes it the parent of every orphan below it, so a daemon that forked twice and has a session
of its own is found and ended too. Elsewhere it ends the command's process group.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

LIFELINE = 0
CHUNK_BYTES = 65_536
PRINTED_BYTES_MAX = 256 * 2**20
FILE_BYTES_MAX = 4 * 2**30
OPEN_FILES_MAX = 4096
PROCESSES_MAX = 1000
NICENESS = 10
# How often memory is looked at, and how much of a core that may cost on a machine with many
# processes: one part in twenty.
SAMPLE_SECONDS = 0.1
SAMPLE_SHARE = 20
# After this long, what still lives cannot be ended: it belongs to another user, or hangs in a
# system call.
END_SECONDS = 10.0
END_PAUSE_SECONDS = 0.02

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
LIBC = ctypes.CDLL(None)
CHILDREN = f"/proc/self/task/{os.getpid()}/children"


class Job(NamedTuple):
    argv: list[str]
    folder: str
    environment: dict[str, str]
    seconds: float
    megabytes: int
    output_bytes: int


class Process(NamedTuple):
    pid: int
    parent: int
    resident_bytes: int


class Supervisor:
    """One command from start to end. `cause` is why it was ended, if it did not end by itself."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._started = time.monotonic()
        self._sample_at = self._started
        self._tail = bytearray()
        self._printed = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._childless = False
        self._exit_code: int | None = None
        self._cause: str | None = None
        self._output, self._output_end = os.pipe()
        os.set_blocking(self._output, False)
        self._alarm = _wake_up_on(signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        self._watched = [self._output, LIFELINE, self._alarm]

    def run(self) -> dict[str, Any]:
        problem = self._start()
        if problem is not None:
            return self._answer("not_started", problem)
        while self._exit_code is None and self._cause is None:
            self._wait()
            self._judge()
        ended_at = time.monotonic()
        if not self._end_all():
            self._cause = "unending"
        self._drain()
        return self._answer(self._cause, "", ended_at)

    def _start(self) -> str | None:
        """What kept it from starting, if anything did."""
        try:
            # Kept for as long as we live: when it goes, it takes the exit code with it.
            self._process = subprocess.Popen(
                self._job.argv,
                cwd=self._job.folder,
                env=self._job.environment,
                stdin=subprocess.DEVNULL,
                stdout=self._output_end,
                stderr=self._output_end,
                start_new_session=True,
                preexec_fn=_limit_command,  # noqa: PLW1509 - there are no threads here
            )
        except FileNotFoundError as exc:
            return f"not found: {exc.filename}"
        except (OSError, ValueError, subprocess.SubprocessError) as exc:
            return f"cannot be started: {exc}"
        finally:
            os.close(self._output_end)
        return None

    def _wait(self) -> None:
        """Until something happens or something is due, then take in what happened."""
        due = min(self._sample_at, self._started + self._job.seconds)
        patience = max(0.0, due - time.monotonic())
        ready, _, _ = select.select(self._watched, [], [], patience)
        if self._output in ready:
            self._read_output()
        if LIFELINE in ready and not os.read(LIFELINE, CHUNK_BYTES):
            self._cause = "abandoned"
        if self._alarm in ready and set(os.read(self._alarm, CHUNK_BYTES)) - {signal.SIGCHLD}:
            self._cause = "abandoned"
        self._reap()

    def _judge(self) -> None:
        now = time.monotonic()
        if self._exit_code is not None or self._cause is not None:
            return
        if now >= self._started + self._job.seconds:
            self._cause = "time"
        elif self._printed > PRINTED_BYTES_MAX:
            self._cause = "output"
        elif now >= self._sample_at:
            before = time.process_time()
            self._cause = _excess(descendants(), self._job.megabytes)
            cost = time.process_time() - before
            self._sample_at = now + max(SAMPLE_SECONDS, SAMPLE_SHARE * cost)

    def _read_output(self) -> bool:
        """Keep the end of what is there. False when there is no more."""
        try:
            chunk = os.read(self._output, CHUNK_BYTES)
        except BlockingIOError:
            return False
        if not chunk:
            self._watched = [LIFELINE, self._alarm]
            return False
        self._printed += len(chunk)
        self._tail += chunk
        del self._tail[: -self._job.output_bytes]
        return True

    def _drain(self) -> None:
        """What was written before the end. If somebody is left who writes on, enough is enough."""
        while self._printed <= PRINTED_BYTES_MAX and self._read_output():
            pass

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._childless = True
                return
            if pid == 0:
                return
            if self._process is not None and pid == self._process.pid:
                self._exit_code = os.waitstatus_to_exitcode(status)

    def _end_all(self) -> bool:
        """Whoever loses a parent becomes a child of this process, so to end all children until
        there are none ends everybody. Reading their numbers takes microseconds: even a process
        that forks and goes, again and again, is caught. A group cannot outrun the signal at all.
        """
        deadline = time.monotonic() + END_SECONDS
        assert self._process is not None
        _kill(-self._process.pid)
        self._reap()
        while not self._childless and time.monotonic() < deadline:
            for pid in _children():
                _kill(pid)
            select.select([self._alarm], [], [], END_PAUSE_SECONDS)
            _empty(self._alarm)
            self._reap()
        return self._childless

    def _answer(
        self, cause: str | None, detail: str, ended_at: float | None = None
    ) -> dict[str, Any]:
        ended_at = ended_at or time.monotonic()
        return {
            "exit_code": self._exit_code if cause is None else None,
            "cause": cause,
            "detail": detail,
            "printed_bytes": self._printed,
            "output_tail": self._tail.decode(errors="replace"),
            "duration_ms": round((ended_at - self._started) * 1000),
        }


def descendants() -> list[Process]:
    """Everybody below this process. Empty where there is no /proc."""
    children: dict[int, list[Process]] = {}
    for entry in _process_numbers():
        process = _read_process(entry)
        if process is not None:
            children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    parents = [os.getpid()]
    while parents:
        below = children.pop(parents.pop(), [])
        found += below
        parents += [process.pid for process in below]
    return found


def _process_numbers() -> list[str]:
    try:
        return [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - hot
    except OSError:
        return []


def _read_process(number: str) -> Process | None:
    try:
        stat = Path("/proc", number, "stat").read_bytes()
    except OSError:
        return None
    # The name of the program comes in brackets and may hold anything, also brackets.
    fields = stat[stat.rindex(b")") + 2 :].split()
    return Process(int(number), int(fields[1]), int(fields[21]) * PAGE_BYTES)


def _children() -> list[int]:
    try:
        return [int(pid) for pid in Path(CHILDREN).read_bytes().split()]
    except OSError:  # not every kernel has that file
        return [process.pid for process in descendants()]


def _excess(processes: list[Process], megabytes: int) -> str | None:
    """What there is too much of. Resident memory counts shared pages once for each process; where
    that is too much, the proportional share decides, which is exact and costs more."""
    bytes_max = megabytes * 2**20
    if len(processes) > PROCESSES_MAX:
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


def _wake_up_on(*signals: signal.Signals) -> int:
    """A descriptor that gets a byte, the number, for each signal."""
    alarm, alarm_end = os.pipe()
    os.set_blocking(alarm, False)
    os.set_blocking(alarm_end, False)
    signal.set_wakeup_fd(alarm_end, warn_on_full_buffer=False)
    for number in signals:
        signal.signal(number, lambda *_: None)
    return alarm


def _empty(descriptor: int) -> None:
    try:
        os.read(descriptor, CHUNK_BYTES)
    except BlockingIOError:
        pass


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def _limit_command() -> None:
    """Runs in the child, before the command takes its place.

    There is no limit on address space or data: runtimes reserve far more of it than they use (bun,
    sanitizers). Memory is measured instead, and if the machine runs short before that is noticed,
    the kernel ends the command and not the server.
    """
    _control(PR_SET_DUMPABLE, 1)  # inherited from us; without it /proc/self cannot be written
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_NOFILE, OPEN_FILES_MAX)
    _lower(resource.RLIMIT_FSIZE, FILE_BYTES_MAX)
    os.nice(NICENESS)
    try:
        Path("/proc/self/oom_score_adj").write_text("1000")
    except OSError:
        pass
    _control(PR_SET_PDEATHSIG, signal.SIGKILL)


def _lower(limit: int, value: int) -> None:
    _, hard = resource.getrlimit(limit)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(limit, (value, value))


def _control(option: int, value: int) -> None:
    if sys.platform == "linux":
        LIBC.prctl(option, value, 0, 0, 0)


def _read_job() -> Job | None:
    line = b""
    while not line.endswith(b"\n"):
        chunk = os.read(LIFELINE, CHUNK_BYTES)
        if not chunk:
            return None
        line += chunk
    return Job(**json.loads(line))


def main() -> None:
    _control(PR_SET_CHILD_SUBREAPER, 1)
    # The command runs as the same user: it must not reach our memory or our end of the answer.
    _control(PR_SET_DUMPABLE, 0)
    job = _read_job()
    if job is None:
        return
    json.dump(Supervisor(job).run(), sys.stdout)


if __name__ == "__main__":
    main()
