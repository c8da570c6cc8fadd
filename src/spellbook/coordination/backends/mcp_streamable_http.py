"""The backend that speaks HTTP."""

from shiftboss.worker.http_backend import MCPStreamableHTTPBackend

__all__ = ["MCPStreamableHTTPBackend"]
