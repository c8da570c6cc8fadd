"""What a worker imports: `from spellbook.coordination import SwarmWorker`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from spellbook.coordination.backends import BACKENDS, get_backend, register_backend
    from spellbook.coordination.protocol import SwarmCreateResponse, WorkerStatus
    from spellbook.coordination.retry import RetryPolicy
    from spellbook.coordination.worker import SwarmWorker

__all__ = [
    "BACKENDS",
    "RetryPolicy",
    "SwarmCreateResponse",
    "SwarmWorker",
    "WorkerStatus",
    "get_backend",
    "register_backend",
]

_MODULES: Final = {
    "BACKENDS": "backends",
    "RetryPolicy": "retry",
    "SwarmCreateResponse": "protocol",
    "SwarmWorker": "worker",
    "WorkerStatus": "protocol",
    "get_backend": "backends",
    "register_backend": "backends",
}


def __getattr__(name: str) -> object:
    # Imported late: `python -m spellbook.coordination.server` imports this package, too.
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
