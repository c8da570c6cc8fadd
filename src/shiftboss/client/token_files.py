"""Where a client's token comes from: an argument, a file, or the environment.

Imports only the standard library and `shiftboss.errors`: commands use it, and start-up counts.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple

from shiftboss.defaults import TOKEN_FILE_VARIABLE, TOKEN_VARIABLE
from shiftboss.errors import ShiftbossError

TOKEN_CHARACTERS_MAX: Final = 4096
_GROUP_AND_OTHERS: Final = 0o077


class BadToken(ShiftbossError):
    code = "bad_token"
    title = "The token cannot be used"


class TokenSource(NamedTuple):
    """`file` is where the token was read from, and can be read again. `name` is what people know
    the source by."""

    token: str | None
    file: Path | None
    name: str


def find_token(token_file: Path | None = None) -> TokenSource:
    """The token of a client, from the given file, from SHIFTBOSS_TOKEN, or from the file that
    SHIFTBOSS_TOKEN_FILE names."""
    in_environment = os.environ.get(TOKEN_VARIABLE, "").strip()
    if token_file is None and in_environment:
        return TokenSource(checked_token(in_environment, TOKEN_VARIABLE), None, TOKEN_VARIABLE)
    # The agents that start `shiftboss mcp` use no shell, which would replace the ~.
    file = token_file.expanduser() if token_file else _file_from_environment()
    if file is None:
        return TokenSource(None, None, "")
    return TokenSource(read_token_file(file), file, str(file))


def _file_from_environment() -> Path | None:
    name = os.environ.get(TOKEN_FILE_VARIABLE, "").strip()
    return Path(name).expanduser() if name else None


def read_token_file(path: Path) -> str:
    """Raises BadToken, also if other users can read the file."""
    return checked_token(_content(path), str(path))


def _content(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            # The mode of the open file: the path may be replaced between check and read.
            mode = os.fstat(file.fileno()).st_mode
            if mode & _GROUP_AND_OTHERS:
                raise BadToken(
                    f"{path} can be read by other users",
                    hint=f"run: chmod 600 {path}",
                    field="token",
                )
            # While a token is rotated, a server accepts every line; the first is the newest.
            return file.read(TOKEN_CHARACTERS_MAX + 1).strip().partition("\n")[0].strip()
    except OSError as error:
        raise BadToken(f"cannot read the token file {path}: {error.strerror}") from error


def checked_token(token: str, source: str) -> str:
    """A token is sent in a header, so it is one line of printable ASCII."""
    if not token:
        raise BadToken(f"{source} holds no token")
    if len(token) > TOKEN_CHARACTERS_MAX or not token.isascii() or not token.isprintable():
        raise BadToken(
            f"the token in {source} cannot be used",
            hint=f"it must be one line of up to {TOKEN_CHARACTERS_MAX} printable ASCII characters",
        )
    return token
