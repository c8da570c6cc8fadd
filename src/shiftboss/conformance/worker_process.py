"""The command under test, as a process that is killed with everything it has started."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from shiftboss.system.processes.descendants import module_argv

OUTPUT_CHARACTERS_MAX: Final = 400
END_SECONDS: Final = 15.0


class RunningWorker(Protocol):
    """A worker that was started. `exit_code` is None while it runs."""

    def exit_code(self) -> int | None: ...

    def kill(self) -> None: ...

    def last_output(self) -> str: ...


# Starts the worker with the environment of the kit, in a folder.
StartsWorkers = Callable[[Mapping[str, str], Path], RunningWorker]


class WorkerProcess:
    def __init__(self, argv: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        self._output = tempfile.TemporaryFile("w+b")  # noqa: SIM115 - closed by kill
        self._process = subprocess.Popen(
            module_argv("shiftboss.conformance.supervisor", *argv),
            stdin=subprocess.PIPE,
            stdout=self._output,
            stderr=self._output,
            cwd=folder,
            env=environment_of_user() | dict(environment),
            start_new_session=True,
        )

    def exit_code(self) -> int | None:
        return self._process.poll()

    def kill(self) -> None:
        """Returns when nothing of the worker is left."""
        if self._output.closed:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        # A worker may have stopped the supervisor, which then could not end what it watches.
        self._process.send_signal(signal.SIGCONT)
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._output.close()

    def last_output(self) -> str:
        if self._output.closed:
            return ""
        size = os.fstat(self._output.fileno()).st_size
        tail = os.pread(self._output.fileno(), 4096, max(0, size - 4096))
        return tail.decode(errors="replace").strip()[-OUTPUT_CHARACTERS_MAX:]


def command_starter(argv: Sequence[str]) -> StartsWorkers:
    def start(environment: Mapping[str, str], folder: Path) -> RunningWorker:
        return WorkerProcess(argv, environment, folder)

    return start


def environment_of_user() -> dict[str, str]:
    """Without tokens and settings of Shiftboss, for the kit's server and the worker."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SHIFTBOSS_")}
