"""What every backend can do."""

from shiftboss.worker.backends import CoordinationBackend

__all__ = ["CoordinationBackend"]
