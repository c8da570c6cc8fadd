"""Child processes that end with the tests, however the tests end."""

from __future__ import annotations

import subprocess

_WATCH = 'read -r _; kill -KILL "$1"'


class Leash:
    """Kills `pid` when this process is gone: the pipe to the watching shell breaks."""

    def __init__(self, pid: int) -> None:
        self._watch = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH, "sh", str(pid)],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def let_go(self) -> None:
        """The child has ended by itself: its number may soon be another's."""
        self._watch.kill()
        self._watch.communicate()
