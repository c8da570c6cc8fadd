"""Reading lines from a terminal while a live view redraws it.

The terminal does not echo, because the view would overwrite the echo. The typed line is part of
the view instead.
"""

from __future__ import annotations

import codecs
import os
import select
import sys
import termios
import threading
from collections.abc import Callable
from typing import Any, Final

LINE_CHARACTERS_MAX: Final = 2000
_ENTER: Final = "\r\n"
_ERASE: Final = "\x7f\b"
_CLEAR: Final = "\x15"  # control-U
_ESCAPE: Final = "\x1b"


class TypedLine:
    """The line that is being typed. Keys that send escape sequences are ignored."""

    def __init__(self) -> None:
        self.text = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def type(self, data: bytes) -> list[str]:
        """The lines that are complete now."""
        characters = self._decoder.decode(data)
        if characters.startswith(_ESCAPE):
            return []
        lines = []
        for character in characters:
            if character in _ENTER:
                lines.append(self.text.strip())
                self.text = ""
            elif character in _ERASE:
                self.text = self.text[:-1]
            elif character == _CLEAR:
                self.text = ""
            elif character.isprintable() and len(self.text) < LINE_CHARACTERS_MAX:
                self.text += character
        return [line for line in lines if line]


class KeyInput:
    """Calls `on_keys`, from a thread, with the keys typed between `start` and `stop`."""

    def __init__(self, on_keys: Callable[[bytes], None]) -> None:
        self._on_keys = on_keys
        self._input = sys.stdin.fileno()
        self._settings: list[Any] | None = None
        self._stop_reader, self._stop_writer = os.pipe()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def start(self) -> None:
        self._settings = termios.tcgetattr(self._input)
        quiet = termios.tcgetattr(self._input)
        # Signals such as control-C still work.
        quiet[3] &= ~(termios.ECHO | termios.ICANON)
        termios.tcsetattr(self._input, termios.TCSANOW, quiet)
        self._thread.start()

    def stop(self) -> None:
        os.write(self._stop_writer, b"x")
        self._thread.join()
        if self._settings is not None:
            termios.tcsetattr(self._input, termios.TCSADRAIN, self._settings)
        os.close(self._stop_reader)
        os.close(self._stop_writer)

    def _read(self) -> None:
        while True:
            ready, _, _ = select.select([self._input, self._stop_reader], [], [])
            if self._stop_reader in ready:
                return
            data = os.read(self._input, 1024)
            if not data:
                return
            self._on_keys(data)


def can_read_lines() -> bool:
    """Whether a person can type here. A process in the background must not read from its terminal:
    the system would stop it."""
    try:
        terminal = sys.stdin.fileno()
    except (OSError, ValueError):
        return False
    if not os.isatty(terminal):
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return True  # not the terminal that controls this process
