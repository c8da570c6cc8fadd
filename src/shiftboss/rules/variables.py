"""Which variables of the server's environment a contract may pass on to its commands."""

from __future__ import annotations

from typing import Final

# They put code into every program, also into those that judge.
_NEVER: Final = frozenset({"LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES"})


def may_be_passed(name: str) -> bool:
    """Never our own: they hold tokens and the address of the store."""
    return name not in _NEVER and not name.upper().startswith("SHIFTBOSS_")
