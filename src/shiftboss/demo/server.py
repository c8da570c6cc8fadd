"""The demo's server: a separate process, which stops with the demo however that ends."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from shiftboss.demo.repos import clean_environment
from shiftboss.errors import ShiftbossError
from shiftboss.system.processes.descendants import python_argv

START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 15.0


class DemoFailed(ShiftbossError):
    code = "demo_failed"
    title = "The demo failed"


class DemoServer:
    """A server on any free port. Its standard input is a pipe from the demo: when that is closed,
    the server stops."""

    def __init__(self, database: Path, policy: Path) -> None:
        self.database = database
        self.log = database.parent / "server.log"
        self._policy = policy
        self.address = ""

    def __enter__(self) -> Self:
        self.database.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._argv(),
                cwd=self.database.parent,
                env=clean_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        try:
            self.address = self._read_first_line()["address"]
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def wait(self) -> None:
        """Wait until it has exited. It is not reaped here: `stop` does that, perhaps at the same
        time."""
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)

    def stop(self) -> None:
        """Stop the server; kill it if it does not exit in time. A signal handler may call this."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _argv(self) -> list[str]:
        argv = python_argv("shiftboss.cli.main", "serve", "--host=127.0.0.1", "--port=0")
        argv += [f"--db={self.database}", f"--policy={self._policy}"]
        return [*argv, "--ends-with-input", "--json"]

    def _read_first_line(self) -> dict[str, str]:
        stdout = self._process.stdout
        assert stdout is not None
        ready, _, _ = select.select([stdout], [], [], START_SECONDS)
        line = stdout.readline() if ready else b""
        if not line:
            raise DemoFailed("the server did not start", hint=f"see its log, {self.log}")
        members: dict[str, str] = json.loads(line)
        return members
