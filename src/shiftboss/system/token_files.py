"""Token files: one token per line, the newest first.

A server accepts all of them, so that a token can be rotated; a client sends the first.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from shiftboss.errors import ShiftbossError

TOKENS_MAX: Final = 10
TOKEN_CHARACTERS_MAX: Final = 4096
_GROUP_AND_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class BadToken(ShiftbossError):
    code = "bad_token"
    title = "The token cannot be used"


def read_token_file(path: Path) -> str:
    """The token of a client. Raises BadToken, also if other users can read the file."""
    return read_token_lines(path)[0]


def read_token_lines(path: Path) -> list[str]:
    """The tokens of a server. Raises BadToken, also if other users can read the file."""
    lines = [line.strip() for line in _content(path).splitlines() if line.strip()]
    if len(lines) > TOKENS_MAX:
        raise BadToken(f"{path} has more than {TOKENS_MAX} tokens", field="token")
    return [checked_token(line, str(path)) for line in lines or [""]]


def _content(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            # The mode of the open file: the path may be replaced between check and read.
            if os.fstat(file.fileno()).st_mode & _GROUP_AND_OTHERS:
                raise BadToken(
                    f"{path} can be read by other users",
                    hint=f"run: chmod 600 {path}",
                    field="token",
                )
            return file.read(TOKENS_MAX * (TOKEN_CHARACTERS_MAX + 1) + 1)
    except OSError as error:
        raise BadToken(f"cannot read the token file {path}: {error.strerror}") from error


def checked_token(token: str, source: str) -> str:
    """A token is sent in a header, so it is one line of printable ASCII."""
    if not token:
        raise BadToken(f"{source} holds no token", field="token")
    if len(token) > TOKEN_CHARACTERS_MAX or not token.isascii() or not token.isprintable():
        raise BadToken(
            f"the token in {source} cannot be used",
            field="token",
            hint=f"it must be one line of up to {TOKEN_CHARACTERS_MAX} printable ASCII characters",
        )
    return token
