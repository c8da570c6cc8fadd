"""Direct calls to the server, by the name of a backend: one call, one request.

Nothing is written to disk and nothing is retried: checkpoints are up to the caller.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

from shiftboss.client.errors import ServerBusy
from shiftboss.client.http_client import HttpClient, ServerRequest, swarm_path, validated
from shiftboss.client.server_address import Server
from shiftboss.client.swarm_events import SwarmEvents
from shiftboss.defaults import HOST, PORT
from shiftboss.protocol.fields import Request
from shiftboss.protocol.packets import (
    CompleteRequest,
    ErrorRequest,
    ProgressRequest,
    RegisterRequest,
)
from shiftboss.protocol.swarms import CreateSwarmRequest


class CoordinationBackend(ABC):
    """What a worker needs from a coordinator. A call has taken effect when it returns; one that is
    refused raises an error of `shiftboss.errors`."""

    @abstractmethod
    async def create_swarm(
        self, feature: str = "", manifest_path: str = "", auto_merge: bool = False, **further: Any
    ) -> str: ...

    @abstractmethod
    async def register_worker(
        self, swarm_id: str, packet_id: int, packet_name: str, tasks_total: int, worktree: str
    ) -> dict[str, Any]: ...

    @abstractmethod
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

    @abstractmethod
    async def report_complete(
        self,
        swarm_id: str,
        packet_id: int,
        final_commit: str,
        tests_passed: bool,
        review_passed: bool,
    ) -> dict[str, Any]: ...

    @abstractmethod
    async def report_error(
        self,
        swarm_id: str,
        packet_id: int,
        task_id: str,
        error_type: str,
        message: str,
        recoverable: bool,
    ) -> dict[str, Any]: ...

    @abstractmethod
    async def get_status(self, swarm_id: str) -> dict[str, Any]: ...

    @abstractmethod
    def subscribe_events(
        self, swarm_id: str, since_event_id: int = 0
    ) -> AsyncIterator[dict[str, Any]]: ...


class MCPStreamableHTTPBackend(CoordinationBackend):
    """`config` has a host, a port and, if the server requires one, a token. With `tls` or `ca`, a
    file with the authorities to trust, the connection is encrypted."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.host = str(config.get("host", HOST))
        self.port = int(config.get("port", PORT))
        in_url = f"[{self.host}]" if ":" in self.host else self.host
        ca = config.get("ca")
        scheme = "https" if config.get("tls") or ca else "http"
        self.base_url = f"{scheme}://{in_url}:{self.port}"
        self._server = Server.at(self.base_url, config.get("token"), ca)
        self._http = HttpClient(self._server)

    async def create_swarm(
        self, feature: str = "", manifest_path: str = "", auto_merge: bool = False, **further: Any
    ) -> str:
        """`further` are more members of the request, such as swarm_id. Returns the swarm's id."""
        request = validated(
            CreateSwarmRequest,
            feature=feature,
            manifest_path=manifest_path,
            auto_merge=auto_merge,
            **further,
        )
        answer = await self._post("/swarm/create", request, "swarm_id")
        return str(answer["swarm_id"])

    async def register_worker(
        self, swarm_id: str, packet_id: int, packet_name: str, tasks_total: int, worktree: str
    ) -> dict[str, Any]:
        request = validated(
            RegisterRequest,
            packet_id=packet_id,
            packet_name=packet_name,
            tasks_total=tasks_total,
            worktree=worktree,
        )
        return await self._post(swarm_path(swarm_id, "register"), request, "registered")

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
    ) -> dict[str, Any]:
        request = validated(
            ProgressRequest,
            packet_id=packet_id,
            task_id=task_id,
            task_name=task_name,
            status=status,
            tasks_completed=tasks_completed,
            tasks_total=tasks_total,
            commit=commit,
        )
        return await self._post(swarm_path(swarm_id, "progress"), request, "acknowledged")

    async def report_complete(
        self,
        swarm_id: str,
        packet_id: int,
        final_commit: str,
        tests_passed: bool,
        review_passed: bool,
    ) -> dict[str, Any]:
        request = validated(
            CompleteRequest,
            packet_id=packet_id,
            final_commit=final_commit,
            tests_passed=tests_passed,
            review_passed=review_passed,
        )
        return await self._post(swarm_path(swarm_id, "complete"), request, "acknowledged")

    async def report_error(
        self,
        swarm_id: str,
        packet_id: int,
        task_id: str,
        error_type: str,
        message: str,
        recoverable: bool,
    ) -> dict[str, Any]:
        request = validated(
            ErrorRequest,
            packet_id=packet_id,
            task_id=task_id,
            error_type=error_type,
            message=message,
            recoverable=recoverable,
        )
        return await self._post(swarm_path(swarm_id, "error"), request, "acknowledged")

    async def get_status(self, swarm_id: str) -> dict[str, Any]:
        path = swarm_path(swarm_id, "status")
        return await self._send(ServerRequest(path=path, members=("status", "workers")))

    def subscribe_events(
        self, swarm_id: str, since_event_id: int = 0
    ) -> AsyncIterator[dict[str, Any]]:
        """The events after `since_event_id`, each as `{"id": ..., "event": ..., "data": {...}}`,
        stored ones first, then live ones without end. A lost connection is opened again."""
        return SwarmEvents(self._server, swarm_id, since_event_id).follow()

    async def _post(self, path: str, request: Request, member: str) -> dict[str, Any]:
        body = request.model_dump(exclude_none=True)
        return await self._send(ServerRequest(path=path, body=body, members=(member,)))

    async def _send(self, request: ServerRequest) -> dict[str, Any]:
        try:
            return (await self._http.send(request)).answer
        except ServerBusy as busy:
            # Nobody retries here, so the caller gets the server's own error.
            raise busy.problem from None


# The backends by name. `register_backend` adds one.
BACKENDS: Final[dict[str, Callable[[Mapping[str, Any]], CoordinationBackend]]] = {
    "mcp-streamable-http": MCPStreamableHTTPBackend,
}


def register_backend(
    name: str, backend_class: Callable[[Mapping[str, Any]], CoordinationBackend]
) -> None:
    """Make `get_backend(name, config)` return `backend_class(config)`."""
    BACKENDS[name] = backend_class


def get_backend(
    name: str | Mapping[str, Any], config: Mapping[str, Any] | None = None
) -> CoordinationBackend:
    """`get_backend(name, config)`, or `get_backend(config)` with the name in `config["backend"]`.
    Raises ValueError if there is no such backend."""
    if not isinstance(name, str):
        config = name
        name = str(config.get("backend", ""))
    backend_class = BACKENDS.get(name)
    if backend_class is None:
        raise ValueError(f"unknown backend {name!r}; known: {', '.join(sorted(BACKENDS))}")
    return backend_class(config or {})
