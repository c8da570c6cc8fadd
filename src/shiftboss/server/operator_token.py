"""The operator's token: a private file in the state folder of the server."""

from __future__ import annotations

import secrets
from pathlib import Path

from shiftboss.defaults import OPERATOR_TOKEN_FILE
from shiftboss.system.private_files import read_private, write_once


def operator_token(folder: Path) -> str:
    """The operator's token in the state folder, created at the first start. A user who can read it
    is the operator."""
    path = folder / OPERATOR_TOKEN_FILE
    if not path.exists():
        write_once(path, f"{secrets.token_urlsafe(32)}\n".encode())
    return read_private(path, "the operator's token").decode().strip()
