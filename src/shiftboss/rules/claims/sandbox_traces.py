"""Recognises output of a command that may have failed because of its sandbox, not of the work."""

from __future__ import annotations

import re
from typing import Final

# What systems, languages and tools print when there is no network, or when a file is out of reach.
_NETWORK: Final = (
    r"network is (?:unreachable|down)",
    r"name resolution",
    r"name or service not known",
    r"(?:could not|couldn't|failed to) resolve",
    r"no such host",
    r"getaddrinfo",
    r"dns error",
    r"connection (?:refused|timed out)",
    r"no route to host",
    r"ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ENETUNREACH|EHOSTUNREACH|ETIMEDOUT",
)
_PERMISSION: Final = (
    r"permission ?denied",  # in one word: the kind of the error in Rust
    r"PermissionError",
    r"operation not permitted",
    r"read-only file ?system",
    r"\b(?:EACCES|EPERM|EROFS)\b",
)
_TRACES: Final = re.compile("|".join((*_NETWORK, *_PERMISSION)), re.IGNORECASE)


def looks_contained(output: str) -> bool:
    """Whether the output complains about the network or about permissions."""
    return _TRACES.search(output) is not None
