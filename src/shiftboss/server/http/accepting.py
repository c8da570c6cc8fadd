"""Accepting connections for as long as the server lives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

ConnectionFactory = Callable[..., asyncio.Protocol]


class _RefusedConnection(asyncio.Protocol):
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        transport.abort()


def always_accepting(create: ConnectionFactory) -> ConnectionFactory:
    """Refuse a connection for which there is no memory. If the factory raised, libuv would wait
    until the connection is accepted, and would never accept another one."""
    refused = _RefusedConnection()

    def create_or_refuse(**arguments: Any) -> asyncio.Protocol:
        try:
            return create(**arguments)
        except MemoryError:
            return refused

    return create_or_refuse
