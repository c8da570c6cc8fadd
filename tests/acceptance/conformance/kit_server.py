"""The server that the kit may kill, forked from the test process."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.running import RunningServer


class KitServer:
    def __init__(self, folder: Path) -> None:
        self._state = folder / "state"
        self._state.mkdir(mode=0o700)
        self._running = RunningServer(self._state / "shiftboss.db")

    @property
    def url(self) -> str:
        return self._running.url

    def start(self) -> KitServer:
        self._state.mkdir(mode=0o700, exist_ok=True)
        self._running.start()
        return self

    def kill(self) -> None:
        self._running.kill()

    def forget(self) -> None:
        shutil.rmtree(self._state)

    def close(self) -> None:
        self._running.close()
