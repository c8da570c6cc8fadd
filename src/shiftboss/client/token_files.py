"""Where a client's token comes from: an argument, a file, or the environment.

Imports little: commands use it, and start-up counts.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from shiftboss.defaults import TOKEN_FILE_VARIABLE, TOKEN_VARIABLE
from shiftboss.system.token_files import checked_token, read_token_file


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
