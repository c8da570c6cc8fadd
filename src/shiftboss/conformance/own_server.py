"""A real Shiftboss server of the kit's own: its state is in a temporary folder."""

from __future__ import annotations

import json
import select
import shutil
import subprocess
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

from shiftboss.conformance.worker_process import environment_of_user
from shiftboss.defaults import HOST
from shiftboss.errors import ShiftbossError
from shiftboss.system.processes.descendants import python_argv

START_SECONDS: Final = 30.0


class ServerNotStarted(ShiftbossError):
    code = "server_not_started"
    title = "The server of the kit did not start"


class RestartableServer(Protocol):
    """`start` after `kill` has the same address, and after `forget` nothing else."""

    @property
    def url(self) -> str: ...

    def start(self) -> object: ...

    def kill(self) -> None: ...

    def forget(self) -> None: ...


class OwnServer:
    def __init__(self, folder: Path) -> None:
        self.url = ""
        self._folder = folder
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> OwnServer:
        state = self._folder / "state"
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        argv = python_argv("shiftboss.cli.main", "serve", "--host", HOST, "--port", str(self._port))
        argv += ["--db", str(state / "shiftboss.db"), "--json", "--ends-with-input"]
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=state,
                env=environment_of_user(),
            )
        self.url = self._address(self._process)
        self._port = urlsplit(self.url).port or 0
        return self

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def forget(self) -> None:
        """A server that keeps its state in memory forgets it with a restart."""
        shutil.rmtree(self._folder / "state")

    def _address(self, process: subprocess.Popen[bytes]) -> str:
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], START_SECONDS)
        line = process.stdout.readline() if ready else b""
        if not line:
            self.kill()
            log = (self._folder / "server.log").read_text(errors="replace")
            raise ServerNotStarted(f"the server of the kit did not start: {log[-500:]}")
        return str(json.loads(line)["address"])
