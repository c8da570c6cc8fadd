"""Environment variables: which may be passed to commands, and which names suggest a secret."""

from __future__ import annotations

import re
from typing import Final

# These load code into every program, including those that check the work.
_NEVER: Final = frozenset({"LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES"})


def is_variable_allowed(name: str) -> bool:
    """Our own variables are never passed, because they contain tokens and the store's address."""
    return name not in _NEVER and not name.upper().startswith("SHIFTBOSS_")


_SECRET: Final = re.compile(
    r"(?:^|_)(?:token|secret|password|passwd|passphrase|credentials?|api_?key|access_?key"
    r"|private_?key|auth)(?:_|$)",
    re.IGNORECASE,
)


def is_secret_name(variable: str) -> bool:
    return _SECRET.search(variable) is not None
