"""Watches over one agent for as long as it lives, and leaves nothing of it behind.

A program of its own, started by process.py with the standard library alone: there may be a hundred.
Its input brings the job, one line of JSON, then orders, and stays open as a lifeline: when it ends,
the orchestrator is gone, and so is the agent at once. What the agent prints is drained whatever
happens: into its log, and on to the output of this process for as long as somebody keeps up.
Reports, lines of JSON, go to what would be the errors of this process.

Linux makes it the parent of every orphan below it, so a daemon that forked twice and has a session
of its own is found and ended too. Elsewhere it ends the agent's process group.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from typing import Any

from shiftboss.orchestrator.guardian.job import GuardianJob, open_input, read_job
from shiftboss.orchestrator.guardian.output import OutputLog, OutputRelay
from shiftboss.orchestrator.guardian.resource_use import ResourceUse
from shiftboss.system.processes import (
    CHUNK_BYTES,
    Children,
    become_guardian,
    descendants,
    limit_child,
    send,
    set_own,
    wake_up_on,
)

LIFELINE = 0
LISTENER = 1
REPORTS = 2

# Below the server and those who wait for it, above the commands that verify.
NICENESS = 3
OPEN_FILES_MAX = 65_536
ERROR_TAIL_BYTES = 8192
# How often the orchestrator is told that there are errors to read.
TELL_SECONDS = 1.0


class Guardian:
    """`cause` is why the agent was ended, if it did not end by itself."""

    def __init__(self, job: GuardianJob, orders: bytes) -> None:
        self._job = job
        self._orders = orders
        self._leader = 0
        self._cause: str | None = None
        self._detail = ""
        self._kill_at = float("inf")
        self._printed = 0
        self._error_tail = bytearray()
        self._log = OutputLog(job.log, job.log_megabytes << 20)
        self._error_log = OutputLog(job.error_log, job.log_megabytes << 20)
        self._passage = OutputRelay(LISTENER)
        self._use = ResourceUse(job)
        self._told_at = 0.0
        self._alarm = wake_up_on(signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        self._output, self._output_end = _pipe()
        self._errors, self._errors_end = _pipe()
        self._watched = [self._output, self._errors, LIFELINE, self._alarm]

    def run(self) -> None:
        try:
            # Kept for as long as we live: when it goes, it takes the exit code with it.
            process = self._start()
        except FileNotFoundError as exc:
            return self._report(None, "not_started", f"not found: {exc.filename}")
        except (OSError, ValueError, subprocess.SubprocessError) as exc:
            return self._report(None, "not_started", f"cannot be started: {exc}")
        self._leader = process.pid
        children = Children(process.pid, self._alarm)
        self._obey()
        while children.exit_code is None and self._cause is None:
            self._wait()
            children.reap()
            if children.exit_code is None and self._cause is None:
                self._judge()
        if self._cause is None and self._kill_at < float("inf"):
            self._cause = "killed"
        if not children.end():
            self._cause, self._detail = "unending", ""
        self._drain()
        self._report(children.exit_code, self._cause, self._detail)
        self._passage.send_all()
        return None

    def _start(self) -> subprocess.Popen[bytes]:
        stdin = open_input(self._job)
        try:
            return subprocess.Popen(
                self._job.argv,
                cwd=self._job.folder,
                env=self._job.environment,
                stdin=stdin,
                stdout=self._output_end,
                stderr=self._errors_end,
                start_new_session=True,
                preexec_fn=self._limit,  # noqa: PLW1509 - there are no threads here
            )
        finally:
            for descriptor in (stdin, self._output_end, self._errors_end):
                os.close(descriptor)

    def _limit(self) -> None:
        """Runs in the child. No file may be larger than all that the tree may hold."""
        file_bytes = self._job.tree_megabytes << 20
        limit_child(niceness=NICENESS, open_files=OPEN_FILES_MAX, file_bytes=file_bytes)
        # Linux may share the time among sessions first, and the agent has one of its own.
        set_own("autogroup", NICENESS)

    def _wait(self) -> None:
        """Until something happens or something is due, then take in what happened."""
        due = min(self._use.due_at, self._kill_at)
        patience = max(0.0, due - time.monotonic())
        full = [LISTENER] if self._passage.is_waiting else []
        ready, writable, _ = select.select(self._watched, full, [], patience)
        if writable:
            self._passage.send()
        if self._output in ready:
            self._read_output()
        if self._errors in ready:
            self._read_errors()
        if LIFELINE in ready:
            self._hear()
        if self._alarm in ready and set(os.read(self._alarm, CHUNK_BYTES)) - {signal.SIGCHLD}:
            self._cause = "abandoned"

    def _judge(self) -> None:
        now = time.monotonic()
        if now >= self._kill_at:
            self._cause = "killed"
        elif self._printed > self._job.output_megabytes << 20:
            self._cause = "output"
        elif now >= self._use.due_at:
            excess = self._use.judge()
            if excess is not None:
                self._cause, self._detail = excess

    def _hear(self) -> None:
        chunk = os.read(LIFELINE, CHUNK_BYTES)
        if not chunk:
            self._cause = "abandoned"
        self._orders += chunk
        self._obey()

    def _obey(self) -> None:
        *lines, self._orders = self._orders.split(b"\n")
        for order in map(json.loads, lines):
            if order["do"] == "end":
                self._ask_to_end(order["grace_seconds"])
            else:
                self._tell_all(signal.SIGSTOP if order["do"] == "pause" else signal.SIGCONT)

    def _ask_to_end(self, grace_seconds: float) -> None:
        if self._kill_at == float("inf"):
            send(-self._leader, signal.SIGTERM)
            self._tell_all(signal.SIGCONT)  # one that stands still cannot hear it
        self._kill_at = min(self._kill_at, time.monotonic() + grace_seconds)

    def _tell_all(self, number: int) -> None:
        """Twice: one that was forked meanwhile is there the second time."""
        send(-self._leader, number)
        for _ in range(2):
            for process in descendants():
                send(process.pid, number)

    def _read_output(self) -> bool:
        """Drain what is there. False when there is no more."""
        chunk = self._read(self._output)
        if chunk:
            self._log.write(chunk)
            self._passage.put(chunk)
        return bool(chunk)

    def _read_errors(self) -> bool:
        chunk = self._read(self._errors)
        if chunk:
            self._error_log.write(chunk)
            self._error_tail += chunk
            del self._error_tail[:-ERROR_TAIL_BYTES]
            self._tell_of_errors()
        return bool(chunk)

    def _tell_of_errors(self) -> None:
        """They do not reach the listener, but are a sign of life."""
        now = time.monotonic()
        if now - self._told_at > TELL_SECONDS:
            self._told_at = now
            _say_if_it_goes({"errors": True})

    def _read(self, descriptor: int) -> bytes:
        try:
            chunk = os.read(descriptor, CHUNK_BYTES)
        except BlockingIOError:
            return b""
        if not chunk and descriptor in self._watched:
            self._watched.remove(descriptor)
        self._printed += len(chunk)
        self._use.printed()
        return chunk

    def _drain(self) -> None:
        """What was written before the end. If somebody is left who writes on, enough is enough."""
        enough = self._printed + (2**20)
        while self._printed < enough and self._read_output():
            pass
        while self._printed < enough and self._read_errors():
            pass

    def _report(self, exit_code: int | None, cause: str | None, detail: str) -> None:
        _say(
            {
                "exit_code": exit_code if cause is None else None,
                "cause": cause,
                "detail": detail,
                "error_tail": self._error_tail.decode(errors="replace"),
            }
        )


def _pipe() -> tuple[int, int]:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    return reading, writing


def _say(report: dict[str, Any]) -> None:
    os.set_blocking(REPORTS, True)
    waiting = memoryview(json.dumps(report).encode() + b"\n")
    try:
        while waiting:
            waiting = waiting[os.write(REPORTS, waiting) :]
    except OSError:  # nobody is there to hear it
        pass


def _say_if_it_goes(report: dict[str, Any]) -> None:
    """Short enough to be written as a whole or not at all."""
    os.set_blocking(REPORTS, False)
    try:
        os.write(REPORTS, json.dumps(report).encode() + b"\n")
    except OSError:
        pass


def main() -> None:
    become_guardian()
    told = read_job(LIFELINE)
    if told is not None:
        Guardian(*told).run()
