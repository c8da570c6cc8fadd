"""`shiftboss serve` for a team: it needs tokens, and logs everything."""

from __future__ import annotations

import json
import select
import signal
from pathlib import Path

from tests.commands import environment
from tests.fork_server import Process, start_python

START_SECONDS = 60.0
STOP_SECONDS = 30.0

# A program of another version, which has the same schema.
_OF_VERSION = """
import sys
import shiftboss
shiftboss.__version__ = sys.argv.pop(1)
from shiftboss.cli.main import main
main()
"""


class TeamServer:
    """Its state folder, with keys and logs, is its own. Started again, it has the same address."""

    def __init__(self, database: str, folder: Path, operator_token: str) -> None:
        folder.mkdir()
        self.folder = folder
        self.url = ""
        self._database = database
        self._operator_token = operator_token
        self._process: Process | None = None

    @property
    def logs(self) -> list[Path]:
        return [self.folder / name for name in ("log", "audit", "output")]

    def start(self, version: str | None = None) -> None:
        assert self._process is None, "the server is running"
        program = ["-m", "shiftboss.cli.main"] if version is None else ["-c", _OF_VERSION, version]
        with (self.folder / "output").open("a") as output:
            self._process = start_python(
                [*program, "serve", *self._options()],
                environment=environment(SHIFTBOSS_OPERATOR_TOKEN=self._operator_token),
                folder=self.folder,
                stderr=output,
                forked=version is None,
            )
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], START_SECONDS)
        line = self._process.stdout.readline() if ready else b""
        assert line, f"the server did not start:\n{(self.folder / 'output').read_text()}"
        self.url = json.loads(line)["address"]

    def _options(self) -> list[str]:
        return [
            *("--port", self.url.rpartition(":")[2] or "0", "--json", "--require-tokens"),
            *("--db", self._database, "--state", str(self.folder / "state")),
            *("--log-level", "debug", "--log-format", "json", "--access-log"),
            *("--log-file", str(self.folder / "log"), "--audit-log", str(self.folder / "audit")),
        ]

    def stop(self) -> None:
        assert self._process is not None, "the server is not running"
        process, self._process = self._process, None
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=STOP_SECONDS)
        assert process.returncode == 0, f"the server ended with {process.returncode}"

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
