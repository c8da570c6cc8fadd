"""Direct calls: `get_backend("mcp-streamable-http", {"host": ..., "port": ...})`."""

from shiftboss.worker.backends import (
    BACKENDS,
    CoordinationBackend,
    MCPStreamableHTTPBackend,
    get_backend,
    register_backend,
)

__all__ = [
    "BACKENDS",
    "CoordinationBackend",
    "MCPStreamableHTTPBackend",
    "get_backend",
    "register_backend",
]
