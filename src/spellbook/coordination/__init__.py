"""What a worker imports: `from spellbook.coordination import SwarmWorker`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shiftboss import SwarmWorker, get_backend

__all__ = ["SwarmWorker", "get_backend"]


def __getattr__(name: str) -> object:
    # Imported late: `python -m spellbook.coordination.server` imports this package, too.
    if name in __all__:
        import shiftboss

        return getattr(shiftboss, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
