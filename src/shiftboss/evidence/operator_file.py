"""The operator's token, in a file of the state folder."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final

from shiftboss.system.private_files import read_private, write_once

OPERATOR_FILE: Final = "operator-token"


def operator_token(folder: Path) -> str:
    """Made at the first start. Who can read it is the operator."""
    path = folder / OPERATOR_FILE
    if not path.exists():
        write_once(path, f"{secrets.token_urlsafe(32)}\n".encode())
    return read_private(path, "the operator's token").decode().strip()
