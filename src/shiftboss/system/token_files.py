"""The token files of a server: one token per line, the newest first; all of them are accepted."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from shiftboss.errors import ShiftbossError

TOKENS_MAX: Final = 10
_CHARACTERS_MAX: Final = 4096
_GROUP_AND_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class BadTokenFile(ShiftbossError):
    code = "bad_token"
    title = "The token cannot be used"


def read_token_lines(path: Path) -> list[str]:
    """Raises BadTokenFile, also if other users can read the file."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            # The mode of the open file: the path may be replaced between check and read.
            if os.fstat(file.fileno()).st_mode & _GROUP_AND_OTHERS:
                raise BadTokenFile(
                    f"{path} can be read by other users", field="token", hint=f"chmod 600 {path}"
                )
            text = file.read(TOKENS_MAX * (_CHARACTERS_MAX + 1) + 1)
    except OSError as error:
        raise BadTokenFile(f"cannot read the token file {path}: {error.strerror}") from error
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise BadTokenFile(f"{path} holds no token", field="token")
    if len(lines) > TOKENS_MAX or not all(map(_is_usable, lines)):
        raise BadTokenFile(
            f"the tokens in {path} cannot be used",
            field="token",
            hint=f"it must have at most {TOKENS_MAX} lines, each of up to {_CHARACTERS_MAX} "
            "printable ASCII characters",
        )
    return lines


def _is_usable(token: str) -> bool:
    """It is sent in a header."""
    return len(token) <= _CHARACTERS_MAX and token.isascii() and token.isprintable()
