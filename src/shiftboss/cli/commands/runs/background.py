"""Runs in the background: started with `run --detach`, watched with --attach, ended with --stop."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from shiftboss.attempts.run_process import RunProcess, process_of_run, was_killed
from shiftboss.cli.common.command import Output
from shiftboss.cli.common.discovery import find_state_folder
from shiftboss.cli.common.output import is_terminal, print_json, print_line, show
from shiftboss.defaults import ADDRESS
from shiftboss.errors import NotFound, ShiftbossError
from shiftboss.orchestrator.run.run_files import (
    RunResult,
    read_progress,
    read_result,
    read_run_facts,
)
from shiftboss.system.processes.descendants import python_argv
from shiftboss.system.state_folder import make_private_folder, make_state_folder, read_server_file

if TYPE_CHECKING:
    from shiftboss.orchestrator.run.progress import Progress

DETACHED_LOG: Final = "detached.log"
START_SECONDS: Final = 120.0
STOP_SECONDS: Final = 120.0
POLL_SECONDS: Final = 0.1
_TAIL_BYTES: Final = 4000


class NotRunning(NotFound):
    code = "not_running"
    title = "The plan is not running"


class NotStarted(ShiftbossError):
    code = "not_started"
    title = "The run did not start"


class RunFolder:
    """The run of a plan, seen from outside. `options` are those that find it again."""

    def __init__(self, folder: Path, plan_file: Path, options: list[str]) -> None:
        self._folder = folder
        self._swarm_id = folder.name
        self._command = ["shiftboss", "run", str(plan_file), *options]

    def command(self, *options: str) -> str:
        return shlex.join([*self._command, *options])

    def detach(self) -> Output:
        """Start the same command line in a session of its own, and wait until it works."""
        running = process_of_run(self._folder)
        if running is not None and running.role != "run":
            raise NotStarted(
                f"`shiftboss {running.role}` is working on the swarm {self._swarm_id}, process "
                f"{running.pid}",
                hint=f"when it has finished: {self.command('--detach')}",
            )
        if running is not None:
            raise NotStarted(
                f"the swarm {self._swarm_id} is running already, process {running.pid}",
                hint=f"watch it: {self.command('--attach')}",
            )
        make_state_folder(self._folder.parents[1])
        make_private_folder(self._folder)
        log = self._folder / DETACHED_LOG
        child = _start(log)
        if not _wait(lambda: self._has_started(child), START_SECONDS):
            raise NotStarted(
                f"process {child.pid} has not started working after {START_SECONDS:.0f} seconds",
                hint=f"see {log}; watch it: {self.command('--attach')}",
            )
        if child.poll() is not None:
            return self._ended_at_once(child, log)
        return Output.of(
            {
                "swarm_id": self._swarm_id,
                "pid": child.pid,
                "log": str(log),
                "address": self._address(),
            },
            lambda: self._show_started(child.pid, log),
        )

    def _ended_at_once(self, child: subprocess.Popen[bytes], log: Path) -> Output:
        """There was nothing to do, or the run could not start."""
        result = read_result(self._folder)
        if result is None or result.pid != child.pid:
            raise NotStarted(f"the run did not start: {_last_lines(log)}", hint=f"see {log}")
        document = {"swarm_id": self._swarm_id, "exit_code": result.exit_code, "log": str(log)}
        error = NotStarted("the run has ended already", hint=f"see {log}")
        return Output.of(
            document,
            lambda: self._show_result(result, as_json=False),
            error if result.exit_code else None,
        )

    def _has_started(self, child: subprocess.Popen[bytes]) -> bool:
        running = process_of_run(self._folder)
        is_working = running is not None and running.pid == child.pid
        return child.poll() is not None or (is_working and read_run_facts(self._folder) is not None)

    def _address(self) -> str:
        facts = read_run_facts(self._folder)
        return ADDRESS if facts is None else facts.address

    def _is_found_here(self) -> bool:
        """Whether commands in this folder find the server by themselves. Then they also find the
        database of a run that has ended, whose server is gone."""
        state = self._folder.parents[1].absolute()
        record = read_server_file(state)
        return find_state_folder() == state and (
            record is not None and record.address == self._address()
        )

    def _show_started(self, pid: int, log: Path) -> None:
        server = [] if self._is_found_here() else ["--server", self._address()]
        print_line(f"swarm {self._swarm_id} runs in the background, process {pid}")
        print_line(f"  log     {log}")
        print_line(f"  status  {shlex.join(['shiftboss', 'status', self._swarm_id, *server])}")
        print_line(f"  watch   {self.command('--attach')}")
        print_line(f"  stop    {self.command('--stop')}")

    def attach(self, *, as_json: bool) -> int:
        """Show the run until it ends; returns its exit code. Ctrl-C ends only the view. As JSON,
        only its outcome is shown."""
        process = self._process()
        if process is None:
            if was_killed(self._folder):
                raise self._killed()
            result = read_result(self._folder)
            if result is None:
                raise self._not_running()
            self._show_result(result, as_json=as_json)
            return result.exit_code
        try:
            if as_json:
                _wait(lambda: not process.is_alive)
            else:
                self._watch(process)
        except KeyboardInterrupt:
            print_line(f"detached; the run continues. To stop it: {self.command('--stop')}")
            return 0
        result = read_result(self._folder)
        if result is None or result.pid != process.pid:
            raise self._killed()
        self._show_result(result, as_json=as_json)
        return result.exit_code

    def _watch(self, process: RunProcess) -> None:
        from shiftboss.cli.views.runs import RunView
        from shiftboss.orchestrator.run.progress import Progress

        if not is_terminal():
            self._print_log(process)
            return
        progress, facts = Progress(), read_run_facts(self._folder)
        elapsed = 0.0 if facts is None else max(time.time() - facts.started_at, 0.0)
        read_progress(self._folder, progress)
        with RunView(progress, elapsed=elapsed, reads_answers=False):
            while process.is_alive:
                read_progress(self._folder, progress)
                time.sleep(POLL_SECONDS)

    def _print_log(self, process: RunProcess) -> None:
        from shiftboss.attempts.log_tail import LogTail
        from shiftboss.orchestrator.run.progress import LOG_NAME

        with LogTail(self._folder / LOG_NAME) as log:
            is_over = False
            while not is_over:
                # Asked before the log is read: so the log is complete up to the end of the run.
                is_over = not process.is_alive
                for line in log.new_lines(to_end=is_over):
                    print_line(line)
                if not is_over:
                    time.sleep(POLL_SECONDS)

    def _show_result(self, result: RunResult, *, as_json: bool) -> None:
        if as_json:
            print_json(json.dumps(result.outcome).encode())
            return
        from shiftboss.cli.views.runs import outcome_lines
        from shiftboss.orchestrator.run.plan_run import RunOutcome

        progress = self._progress()
        show(*outcome_lines(RunOutcome(**result.outcome), progress))

    def _progress(self) -> Progress:
        from shiftboss.orchestrator.run.progress import Progress

        progress = Progress()
        read_progress(self._folder, progress)
        return progress

    def stop(self) -> Output:
        """Stop the run as Ctrl-C would, and wait until it has given its tasks back."""
        process = self._process()
        if process is None:
            raise self._not_running()
        with contextlib.suppress(ProcessLookupError):  # it may end just now
            os.kill(process.pid, signal.SIGTERM)
        if not _wait(lambda: not process.is_alive, STOP_SECONDS):
            raise NotStarted(
                f"process {process.pid} did not stop within {STOP_SECONDS:.0f} seconds",
                hint=f"see {self._folder / DETACHED_LOG}; to end it at once: kill -9 {process.pid}",
            )
        return Output.of(
            {"swarm_id": self._swarm_id, "pid": process.pid, "stopped": True},
            lambda: print_line(f"stopped; to continue: {self.command()}"),
        )

    def _process(self) -> RunProcess | None:
        """Not that of `land` or `clean`, which hold the same lock."""
        process = process_of_run(self._folder)
        return process if process is not None and process.role == "run" else None

    def _killed(self) -> NotRunning:
        return NotRunning(
            f"the run of {self._swarm_id} was killed", hint=f"continue it: {self.command()}"
        )

    def _not_running(self) -> NotRunning:
        return NotRunning(
            f"no run of the swarm {self._swarm_id} is running: looked in {self._folder}",
            hint=f"start it: {self.command('--detach')}",
        )


def _start(log: Path) -> subprocess.Popen[bytes]:
    arguments = [argument for argument in sys.argv[1:] if argument not in ("--detach", "--json")]
    with log.open("ab") as output:
        return subprocess.Popen(
            python_argv("shiftboss.cli.main", *arguments),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def _wait(condition: Callable[[], bool], seconds: float = math.inf) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _last_lines(log: Path) -> str:
    try:
        text = log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace")
    except OSError:
        return ""
    return " ".join(text.strip().splitlines()[-3:])
