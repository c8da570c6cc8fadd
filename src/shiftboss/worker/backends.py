"""Backends by name."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final, Protocol

from shiftboss.worker.http_backend import MCPStreamableHTTPBackend


class CoordinationBackend(Protocol):
    """What a worker needs of a coordinator. Every call raises an error of `shiftboss.errors` when
    it is refused, and is otherwise done when it returns."""

    async def create_swarm(
        self, feature: str = "", manifest_path: str = "", auto_merge: bool = False, **further: Any
    ) -> str: ...

    async def register_worker(
        self, swarm_id: str, packet_id: int, packet_name: str, tasks_total: int, worktree: str
    ) -> dict[str, Any]: ...

    async def report_progress(
        self,
        swarm_id: str,
        packet_id: int,
        task_id: str,
        task_name: str,
        status: str,
        tasks_completed: int,
        tasks_total: int,
        commit: str | None = None,
    ) -> dict[str, Any]: ...

    async def report_complete(
        self,
        swarm_id: str,
        packet_id: int,
        final_commit: str,
        tests_passed: bool,
        review_passed: bool,
    ) -> dict[str, Any]: ...

    async def report_error(
        self,
        swarm_id: str,
        packet_id: int,
        task_id: str,
        error_type: str,
        message: str,
        recoverable: bool,
    ) -> dict[str, Any]: ...

    async def get_status(self, swarm_id: str) -> dict[str, Any]: ...

    def subscribe_events(
        self, swarm_id: str, since_event_id: int = 0
    ) -> AsyncIterator[dict[str, Any]]: ...


_BACKENDS: Final[dict[str, Callable[[Mapping[str, Any]], CoordinationBackend]]] = {
    "mcp-streamable-http": MCPStreamableHTTPBackend,
}


def get_backend(name: str, config: Mapping[str, Any] | None = None) -> CoordinationBackend:
    backend = _BACKENDS.get(name)
    if backend is None:
        raise ValueError(f"unknown backend {name!r}; there is {', '.join(sorted(_BACKENDS))}")
    return backend(config or {})
