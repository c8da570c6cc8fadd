"""The interface of a backend."""

from shiftboss.worker.backends import CoordinationBackend

__all__ = ["CoordinationBackend"]
