"""The workers of a server: a process of their own, killed and restarted like any other."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.faults.ledger import Ledger
from tests.fork_server import Process, start_python
from tests.waiting import wait_until

GOES_ON_SECONDS = 90.0


class Workers:
    def __init__(self, url: str, folder: Path, number: int) -> None:
        file = folder / f"ledger-{number}"
        self.ledger = Ledger(file)
        self._log = folder / f"workers-{number}.log"
        self._arguments = ["-m", "tests.faults.load", url, str(file), str(number)]
        self._process: Process | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = start_python(
                self._arguments, folder=Path(__file__).parents[2], stdout=log, stderr=log
            )

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None

    def kill_and_restart(self) -> None:
        self.kill()
        self.start()

    def freeze(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)

    def go_on(self, reports: int) -> None:
        """Wait until so many more reports are acknowledged."""
        goal = self.ledger.read().lines + reports
        wait_until(
            lambda: self._lives() and self.ledger.read().lines >= goal,
            f"{reports} more reports are acknowledged",
            GOES_ON_SECONDS,
        )

    def _lives(self) -> bool:
        assert self._process is not None
        code = self._process.poll()
        assert code is None, f"the workers ended: {self._log.read_text()[-3000:]}"
        return True

    def close(self) -> None:
        if self._process is not None:
            self.kill()
