"""Runs one command and leaves no process of it behind.

A separate program, started by command.py. It uses only the standard library, so that it starts
within 30 ms. Its input carries the job, one line of JSON, and then stays open as a lifeline: when
the input ends, the server is gone or no longer needs the result, and the command is killed. The
result is one JSON document on its output.

On Linux it becomes the parent of every orphan below it, so even a daemon that forked twice and has
its own session is found and killed. Elsewhere it kills the command's process group.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from typing import Any, NamedTuple

from shiftboss.evidence.commands.namespaces import Mount, Namespaces, describe_failure, enter
from shiftboss.system.processes.descendants import (
    CHUNK_BYTES,
    Children,
    become_subreaper,
    descendants,
    exceeded_limit,
    leave_session_keyring,
    limit_child,
    open_signal_pipe,
)

LIFELINE = 0
STANDARD_ERROR = 2
PRINTED_BYTES_MAX = 256 * 2**20
FILE_BYTES_MAX = 4 * 2**30
OPEN_FILES_MAX = 4096
PROCESSES_MAX = 1000
NICENESS = 10
# How often memory is measured. With many processes less often, so that measuring takes at most a
# twentieth of a core.
SAMPLE_SECONDS = 0.1
SAMPLE_SHARE = 20


class CommandJob(NamedTuple):
    """`wrapper` is the command line of a program that contains the command; its exit code for a
    signal is that of a shell. `namespaces`: the supervisor contains the command itself."""

    argv: list[str]
    folder: str
    environment: dict[str, str]
    seconds: float
    megabytes: int
    output_bytes: int
    wrapper: list[str]
    namespaces: Namespaces | None


class Supervisor:
    """One command from start to end. `_cause` is why it was killed, if it did not end by itself."""

    def __init__(self, job: CommandJob) -> None:
        self._job = job
        self._started = time.monotonic()
        self._sample_at = self._started
        self._tail = bytearray()
        self._printed = 0
        self._cause: str | None = None
        self._output, self._output_end = os.pipe()
        os.set_blocking(self._output, False)
        self._signals = open_signal_pipe(
            signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP
        )
        self._watched = [self._output, LIFELINE, self._signals]

    def run(self) -> dict[str, Any]:
        try:
            # The object must stay alive: when it is deleted, Popen reaps the exit code.
            process = self._start()
        except FileNotFoundError as exc:
            return self._result(None, "not_started", f"not found: {exc.filename}")
        except subprocess.SubprocessError:
            return self._not_prepared()
        except (OSError, ValueError) as exc:
            return self._result(None, "not_started", f"cannot be started: {exc}")
        children = Children(process.pid, self._signals)
        while children.exit_code is None and self._cause is None:
            self._wait()
            children.reap()
            if children.exit_code is None and self._cause is None:
                self._check_limits()
        ended_at = time.monotonic()
        if not children.end():
            self._cause = "unending"
        self._drain()
        return self._result(self._exit_code(children), self._cause, "", ended_at)

    def _not_prepared(self) -> dict[str, Any]:
        """The child could not be prepared, and has printed why."""
        self._drain()
        reason = self._tail.decode(errors="replace")
        if self._job.namespaces is not None:
            return self._result(None, "not_contained", reason)
        return self._result(None, "not_started", f"cannot be started: {reason}")

    def _exit_code(self, children: Children) -> int | None:
        code = children.exit_code
        if self._job.wrapper and code is not None and 128 < code <= 128 + signal.NSIG:
            return 128 - code
        return code

    def _start(self) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                [*self._job.wrapper, *self._job.argv],
                cwd=self._job.folder,
                env=self._job.environment,
                stdin=subprocess.DEVNULL,
                stdout=self._output_end,
                stderr=self._output_end,
                start_new_session=True,
                preexec_fn=self._prepare_child,  # noqa: PLW1509 - there are no threads here
            )
        finally:
            os.close(self._output_end)

    def _prepare_child(self) -> None:
        """Popen tells nothing about an error in here, so it is printed."""
        try:
            limit_child(niceness=NICENESS, open_files=OPEN_FILES_MAX, file_bytes=FILE_BYTES_MAX)
            leave_session_keyring()
            if self._job.namespaces is not None:
                enter(self._job.namespaces, self._job.folder)
        except OSError as error:
            os.write(STANDARD_ERROR, describe_failure(error).encode())
            raise

    def _wait(self) -> None:
        """Wait for output, a signal, the end of the lifeline or the next check."""
        due = min(self._sample_at, self._started + self._job.seconds)
        timeout = max(0.0, due - time.monotonic())
        ready, _, _ = select.select(self._watched, [], [], timeout)
        if self._output in ready:
            self._read_output()
        if LIFELINE in ready and not os.read(LIFELINE, CHUNK_BYTES):
            self._cause = "abandoned"
        if self._signals in ready and set(os.read(self._signals, CHUNK_BYTES)) - {signal.SIGCHLD}:
            self._cause = "abandoned"

    def _check_limits(self) -> None:
        now = time.monotonic()
        if now >= self._started + self._job.seconds:
            self._cause = "time"
        elif self._printed > PRINTED_BYTES_MAX:
            self._cause = "output"
        elif now >= self._sample_at:
            before = time.process_time()
            self._cause = exceeded_limit(descendants(), self._job.megabytes, PROCESSES_MAX)
            cost = time.process_time() - before
            self._sample_at = now + max(SAMPLE_SECONDS, SAMPLE_SHARE * cost)

    def _read_output(self) -> bool:
        """Read what is available and keep the end of it. False when there is no more."""
        try:
            chunk = os.read(self._output, CHUNK_BYTES)
        except BlockingIOError:
            return False
        if not chunk:
            self._watched = [LIFELINE, self._signals]
            return False
        self._printed += len(chunk)
        self._tail += chunk
        del self._tail[: -self._job.output_bytes]
        return True

    def _drain(self) -> None:
        """Read the output before the end, up to the limit: a process that could not be killed may
        continue printing."""
        while self._printed <= PRINTED_BYTES_MAX and self._read_output():
            pass

    def _result(
        self, exit_code: int | None, cause: str | None, detail: str, ended_at: float | None = None
    ) -> dict[str, Any]:
        ended_at = ended_at or time.monotonic()
        return {
            "exit_code": exit_code if cause is None else None,
            "cause": cause,
            "detail": detail,
            "printed_bytes": self._printed,
            "output_tail": self._tail.decode(errors="replace"),
            "duration_ms": round((ended_at - self._started) * 1000),
        }


def _read_job() -> CommandJob | None:
    line = b""
    while not line.endswith(b"\n"):
        chunk = os.read(LIFELINE, CHUNK_BYTES)
        if not chunk:
            return None
        line += chunk
    return _parse_job(json.loads(line))


def _parse_job(members: dict[str, Any]) -> CommandJob:
    contained = members.pop("namespaces")
    if contained is None:
        return CommandJob(**members, namespaces=None)
    mounts, network = contained
    namespaces = Namespaces([Mount(*mount) for mount in mounts], network)
    return CommandJob(**members, namespaces=namespaces)


def main() -> None:
    become_subreaper()
    job = _read_job()
    if job is not None:
        json.dump(Supervisor(job).run(), sys.stdout)
