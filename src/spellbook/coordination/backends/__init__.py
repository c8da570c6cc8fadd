"""Direct calls: `get_backend("mcp-streamable-http", {"host": ..., "port": ...})`."""

from shiftboss.worker.backends import get_backend

__all__ = ["get_backend"]
