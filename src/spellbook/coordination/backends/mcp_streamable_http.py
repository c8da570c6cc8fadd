"""The backend that speaks HTTP."""

from shiftboss.worker.backends import MCPStreamableHTTPBackend

__all__ = ["MCPStreamableHTTPBackend"]
