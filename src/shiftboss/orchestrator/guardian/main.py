"""Supervises one agent for as long as it lives, and leaves none of its processes behind.

This is a separate program, started by agent_process.py. It imports only the standard library,
because there may be a hundred of them. Standard input brings the job, one line of JSON, then
orders. It stays open as a lifeline: when it is closed, the orchestrator is gone, and the agent is
ended at once. The output of the agent is always drained: into its log, and to standard output for
as long as the orchestrator keeps up. Reports, lines of JSON, go to standard error.

Linux makes this process the parent of every orphan below it. So a daemon that forked twice and has
its own session is found and ended too. On other systems the agent's process group is ended.
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
from shiftboss.system.processes.descendants import (
    CHUNK_BYTES,
    Children,
    become_subreaper,
    descendants,
    limit_child,
    open_signal_pipe,
    send_signal,
    set_proc_self,
)

LIFELINE = 0
LISTENER = 1
REPORTS = 2

# Lower priority than the server and its clients, higher than the commands that verify.
NICENESS = 3
OPEN_FILES_MAX = 65_536
ERROR_TAIL_BYTES = 8192
# How often the orchestrator is informed that the agent writes to standard error.
REPORT_SECONDS = 1.0


class Guardian:
    """`_cause` is why the agent was ended; None if it exited by itself."""

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
        self._relay = OutputRelay(LISTENER)
        self._use = ResourceUse(job)
        self._reported_at = 0.0
        self._alarm = open_signal_pipe(signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        self._output, self._output_end = _pipe()
        self._errors, self._errors_end = _pipe()
        self._watched = [self._output, self._errors, LIFELINE, self._alarm]

    def run(self) -> None:
        try:
            # Referenced until the end: its destructor would reap the child and lose the exit code.
            process = self._start()
        except FileNotFoundError as exc:
            return self._report(None, "not_started", f"not found: {exc.filename}")
        except (OSError, ValueError, subprocess.SubprocessError) as exc:
            return self._report(None, "not_started", f"cannot be started: {exc}")
        self._leader = process.pid
        children = Children(process.pid, self._alarm)
        self._follow_orders()
        while children.exit_code is None and self._cause is None:
            self._wait()
            children.reap()
            if children.exit_code is None and self._cause is None:
                self._check_limits()
        if self._cause is None and self._kill_at < float("inf"):
            self._cause = "killed"
        if not children.end():
            self._cause, self._detail = "unending", ""
        self._drain()
        self._report(children.exit_code, self._cause, self._detail)
        self._relay.send_all()
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
        """Runs in the child. No file may be larger than the limit for the whole folder."""
        file_bytes = self._job.tree_megabytes << 20
        limit_child(niceness=NICENESS, open_files=OPEN_FILES_MAX, file_bytes=file_bytes)
        # With autogroups, Linux divides the processor among sessions, and the agent has its own.
        set_proc_self("autogroup", NICENESS)

    def _wait(self) -> None:
        """Wait until something happens or a check is due, then handle what happened."""
        due_at = min(self._use.due_at, self._kill_at)
        timeout = max(0.0, due_at - time.monotonic())
        outputs = [LISTENER] if self._relay.is_waiting else []
        ready, writable, _ = select.select(self._watched, outputs, [], timeout)
        if writable:
            self._relay.send()
        if self._output in ready:
            self._read_output()
        if self._errors in ready:
            self._read_errors()
        if LIFELINE in ready:
            self._read_orders()
        if self._alarm in ready and set(os.read(self._alarm, CHUNK_BYTES)) - {signal.SIGCHLD}:
            self._cause = "abandoned"

    def _check_limits(self) -> None:
        now = time.monotonic()
        if now >= self._kill_at:
            self._cause = "killed"
        elif self._printed > self._job.output_megabytes << 20:
            self._cause = "output"
        elif now >= self._use.due_at:
            exceeded = self._use.check()
            if exceeded is not None:
                self._cause, self._detail = exceeded

    def _read_orders(self) -> None:
        chunk = os.read(LIFELINE, CHUNK_BYTES)
        if not chunk:
            self._cause = "abandoned"
        self._orders += chunk
        self._follow_orders()

    def _follow_orders(self) -> None:
        *lines, self._orders = self._orders.split(b"\n")
        for order in map(json.loads, lines):
            if order["do"] == "end":
                self._terminate(order["grace_seconds"])
            else:
                self._signal_all(signal.SIGSTOP if order["do"] == "pause" else signal.SIGCONT)

    def _terminate(self, grace_seconds: float) -> None:
        if self._kill_at == float("inf"):
            send_signal(-self._leader, signal.SIGTERM)
            self._signal_all(signal.SIGCONT)  # a stopped process does not handle SIGTERM
        self._kill_at = min(self._kill_at, time.monotonic() + grace_seconds)

    def _signal_all(self, number: int) -> None:
        """Signal all processes twice: one forked in the meantime is found the second time."""
        send_signal(-self._leader, number)
        for _ in range(2):
            for process in descendants():
                send_signal(process.pid, number)

    def _read_output(self) -> bool:
        """Read one chunk. False if there was none."""
        chunk = self._read(self._output)
        if chunk:
            self._log.write(chunk)
            self._relay.put(chunk)
        return bool(chunk)

    def _read_errors(self) -> bool:
        chunk = self._read(self._errors)
        if chunk:
            self._error_log.write(chunk)
            self._error_tail += chunk
            del self._error_tail[:-ERROR_TAIL_BYTES]
            self._report_errors()
        return bool(chunk)

    def _report_errors(self) -> None:
        """The content is not forwarded, but it shows that the agent is alive."""
        now = time.monotonic()
        if now - self._reported_at > REPORT_SECONDS:
            self._reported_at = now
            _try_to_write_report({"errors": True})

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
        """Read what was written before the exit. Limited, in case a process still writes."""
        limit = self._printed + (2**20)
        while self._printed < limit and self._read_output():
            pass
        while self._printed < limit and self._read_errors():
            pass

    def _report(self, exit_code: int | None, cause: str | None, detail: str) -> None:
        _write_report(
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


def _write_report(report: dict[str, Any]) -> None:
    os.set_blocking(REPORTS, True)
    remaining = memoryview(json.dumps(report).encode() + b"\n")
    try:
        while remaining:
            remaining = remaining[os.write(REPORTS, remaining) :]
    except OSError:  # the orchestrator is gone
        pass


def _try_to_write_report(report: dict[str, Any]) -> None:
    """The report is so short that it is written as a whole or not at all."""
    os.set_blocking(REPORTS, False)
    try:
        os.write(REPORTS, json.dumps(report).encode() + b"\n")
    except OSError:
        pass


def main() -> None:
    become_subreaper()
    job_and_orders = read_job(LIFELINE)
    if job_and_orders is not None:
        Guardian(*job_and_orders).run()
