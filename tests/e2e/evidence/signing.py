"""Processes that tests can recognise by a variable they inherit."""

from __future__ import annotations

import uuid

import psutil

VARIABLE = "SIGN"


class Signed:
    def __init__(self) -> None:
        self.sign = uuid.uuid4().hex

    def processes(self) -> list[psutil.Process]:
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def kill_all(self) -> None:
        for process in self.processes():
            process.kill()

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            return bool(process.environ().get(VARIABLE) == self.sign)
        except (psutil.Error, OSError):
            return False
