"""The real server in a separate process."""

from __future__ import annotations

import json
import select
import signal
import subprocess
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from tests.fork_server import Process, start_python

START_SECONDS = 20.0
STOP_SECONDS = 20.0

_SERVE = """
import json, sys
from shiftboss.server.run import ServerSettings, serve
serve(ServerSettings(**json.loads(sys.argv[1])), lambda url: print(url, flush=True))
"""


class RunningServer:
    """`RunningServer(database).start()`; the address is `.url`.

    `start` after `stop` or `kill` reuses the port and the database. `settings` are further
    fields of ServerSettings. With an `environment`, it is started without forking.
    """

    def __init__(
        self,
        database: str | Path,
        **settings: object,
    ) -> None:
        self.database = str(database)
        self.environment: Mapping[str, str] | None = None
        # What it does first; with this, it is started without forking.
        self.prelude = ""
        self.url = ""
        self._settings = {"database": self.database, "port": 0, **settings}
        self._log = tempfile.TemporaryFile("a+")  # noqa: SIM115 - lives as long as the server
        # A server that did not start is not always closed.
        weakref.finalize(self, self._log.close)
        self._process: Process | None = None

    @property
    def state_folder(self) -> Path:
        return Path(str(self._settings.get("state", Path(self.database).parent)))

    def start(self) -> RunningServer:
        assert self._process is None, "the server is running"
        settings = json.dumps(self._settings)
        self._process = start_python(
            ["-c", self.prelude + _SERVE, settings],
            stderr=self._log,
            environment=self.environment,
            forked=self.environment is None and not self.prelude,
        )
        self.url = self._first_line(self._process)
        if not self.url:
            self.kill()
            raise AssertionError(f"the server did not start:\n{self.log}")
        self._settings["port"] = urlsplit(self.url).port
        return self

    def change(self, **settings: object) -> None:
        """Change its settings, from the next start on."""
        self._settings |= settings

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server is not running"
        return self._process.pid

    @property
    def log(self) -> str:
        self._log.flush()
        self._log.seek(0)
        return self._log.read()

    def kill(self) -> None:
        """Kill it, like a crash."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop it with SIGTERM. It must exit with 0."""
        code = self._end(signal.SIGTERM)
        assert code == 0, f"the server ended with {code}:\n{self.log}"

    def close(self) -> None:
        """Kill the server if it is still running, and print its log for a failed test."""
        if self._process is not None:
            self.kill()
        print(f"--- log of the server on {self.database}\n{self.log}")
        self._log.close()

    def _end(self, how: signal.Signals) -> int:
        assert self._process is not None, "the server is not running"
        self._process.send_signal(how)
        try:
            self._process.communicate(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            raise AssertionError(f"the server did not end:\n{self.log}") from None
        code = self._process.wait()
        self._process = None
        return code

    @staticmethod
    def _first_line(process: Process) -> str:
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], START_SECONDS)
        return process.stdout.readline().decode().strip() if ready else ""
