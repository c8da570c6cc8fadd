"""The backend that uses HTTP."""

from shiftboss.worker.backends import MCPStreamableHTTPBackend

__all__ = ["MCPStreamableHTTPBackend"]
