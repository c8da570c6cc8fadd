"""The demo's server: a process of its own, which ends with the demo however that ends."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from shiftboss.demo.repos import clean_environment
from shiftboss.errors import ShiftbossError

START_SECONDS: Final = 30.0
END_SECONDS: Final = 15.0


class DemoFailed(ShiftbossError):
    code = "demo_failed"
    title = "The demo went wrong"


class DemoServer:
    """On any free port. Its input is a pipe from us: when that ends, it ends, too."""

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
            self.address = self._first_words()["address"]
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end()

    def wait(self) -> None:
        """Until it ends by itself."""
        self._process.wait()

    def _argv(self) -> list[str]:
        argv = [sys.executable, "-m", "shiftboss.cli.main", "serve", "--host=127.0.0.1", "--port=0"]
        argv += [f"--db={self.database}", f"--policy={self._policy}"]
        return [*argv, "--ends-with-input", "--json"]

    def _first_words(self) -> dict[str, str]:
        out = self._process.stdout
        assert out is not None
        ready, _, _ = select.select([out], [], [], START_SECONDS)
        line = out.readline() if ready else b""
        if not line:
            raise DemoFailed("the server did not start", hint=f"its log is {self.log}")
        words: dict[str, str] = json.loads(line)
        return words

    def _end(self) -> None:
        """It is gone afterwards, whatever it does."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
