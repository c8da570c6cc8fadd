"""Kills a child process when the tests end, even if they are killed."""

from __future__ import annotations

import subprocess

_WATCH_SCRIPT = 'read -r _; kill -KILL "$1"'


class KillWithParent:
    """A shell that kills `pid` when this process is gone, because the pipe to it breaks."""

    def __init__(self, pid: int) -> None:
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH_SCRIPT, "sh", str(pid)],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def release(self) -> None:
        """Stop watching: the child has exited, and its process id may be reused."""
        self._shell.kill()
        self._shell.communicate()
