"""The demo's processes. Each is a group of its own, so that nothing of it is left behind."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from shiftboss.demo.record import DemoFailed
from shiftboss.demo.surroundings import clean_environment

START_SECONDS: Final = 15.0
END_SECONDS: Final = 15.0
LOOK_SECONDS: Final = 0.01


class Process:
    """`python -m module ...`; its stdout is ours to read, its stderr goes to a log."""

    def __init__(self, module: str, arguments: list[str], log: Path) -> None:
        self.log = log
        with log.open("ab") as stderr:
            self._child = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                cwd=log.parent,
                env=clean_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
            )
        assert self._child.stdout is not None
        self._stdout = self._child.stdout
        self._reader: threading.Thread | None = None

    @property
    def exit_code(self) -> int | None:
        return self._child.poll()

    def first_line(self) -> bytes:
        ready, _, _ = select.select([self._stdout], [], [], START_SECONDS)
        line = self._stdout.readline() if ready else b""
        if not line:
            raise DemoFailed(f"a process did not start; see {self.log}")
        return line

    def follow(self, hear: Callable[[dict[str, Any]], None], ended: Callable[[int], None]) -> None:
        """Hand over every line of JSON, then the exit code, from a thread."""

        def run() -> None:
            for line in self._stdout:
                hear(json.loads(line))
            ended(self._child.wait())

        self._reader = threading.Thread(target=run, daemon=True)
        self._reader.start()

    def kill(self) -> int:
        """SIGKILL to the process alone; what it had started may finish."""
        self._child.kill()
        code = self._child.wait()
        self._wait_for_group()
        return code

    def stop(self) -> None:
        """Ask it to end. It is gone afterwards, whatever it does."""
        if self.exit_code is None:
            self._child.terminate()
            try:
                self._child.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(self._child.pid, signal.SIGKILL)
                self._child.wait()
        self._wait_for_group()
        if self._reader is not None:
            self._reader.join()
        self._stdout.close()

    def wait(self) -> int:
        return self._child.wait()

    def _wait_for_group(self) -> None:
        """A git that the process started holds a lock on the repository until it ends."""
        deadline = time.monotonic() + END_SECONDS
        while self._group_is_there() and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)

    def _group_is_there(self) -> bool:
        try:
            os.killpg(self._child.pid, 0)
        except (ProcessLookupError, PermissionError):
            return False
        return True
