"""Processes that tests can recognise by a variable they inherit, and programs that do not end."""

from __future__ import annotations

import uuid

import psutil

VARIABLE = "SIGN"
FOREVER = "import time\nwhile True: time.sleep(1000)\n"
# Forks twice into its own session, as a daemon does, and creates a file.
DAEMON = f"""
import os, pathlib, sys
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    pathlib.Path("daemon").touch()
    {FOREVER.replace(chr(10), chr(10) + "    ")}
while not os.path.exists("daemon"):
    pass
"""


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
