"""How git reaches a repository: which transports it may use, and with which credentials.

Credentials are in a file that only its owner can read. Git gets the path of the file through its
environment; the credentials themselves are in no argument, environment or log.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Final

from shiftboss.system.private_files import read_private

# The path of a file in the format of git-credential-store.
CREDENTIALS_VARIABLE: Final = "SHIFTBOSS_GIT_CREDENTIALS"


def credentials_file() -> Path | None:
    path = os.environ.get(CREDENTIALS_VARIABLE)
    return Path(path).resolve() if path else None


def transport_environment(is_local: bool) -> dict[str, str]:
    """For a fetch. Raises EvidenceUnavailable if other users can read the credentials."""
    if is_local:
        return {"GIT_ALLOW_PROTOCOL": "file"}
    allowed = {"GIT_ALLOW_PROTOCOL": "http:https:ssh"}
    file = credentials_file()
    if file is None:
        return allowed
    read_private(file, "the git credentials")
    # It only looks up: git would have the store forget credentials that a server refuses once.
    look_up = f"git credential-store --file={shlex.quote(str(file))} get"
    return {
        **allowed,
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "credential.helper",
        "GIT_CONFIG_VALUE_0": f'!f() {{ test "$1" != get || {look_up}; }}; f',
    }
