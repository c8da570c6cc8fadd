"""The interface of a backend, and the backends by name."""

from shiftboss.worker.backends import (
    BACKENDS,
    CoordinationBackend,
    get_backend,
    register_backend,
)

__all__ = ["BACKENDS", "CoordinationBackend", "get_backend", "register_backend"]
