"""Which variables of the server's environment a contract may pass on to its commands."""

from __future__ import annotations

import re
from typing import Final

# They put code into every program, also into those that judge.
_NEVER: Final = frozenset({"LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES"})


def may_be_passed(name: str) -> bool:
    """Never our own: they hold tokens and the address of the store."""
    return name not in _NEVER and not name.upper().startswith("SHIFTBOSS_")


# Names of variables that hold secrets.


_SECRET: Final = re.compile(
    r"(?:^|_)(?:token|secret|password|passwd|passphrase|credentials?|api_?key|access_?key"
    r"|private_?key|auth)(?:_|$)",
    re.IGNORECASE,
)


def is_secret_name(variable: str) -> bool:
    return _SECRET.search(variable) is not None
