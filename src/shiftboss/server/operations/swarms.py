"""The four reports of a packet."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from pydantic import ValidationError

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.coordinator.swarms.service import SwarmService
from shiftboss.errors import ShiftbossError, UnknownSwarm
from shiftboss.protocol.fields import Answer, Request, is_swarm_id, wire_time
from shiftboss.protocol.packets import (
    CompleteAnswer,
    CompleteRequest,
    ErrorAnswer,
    ErrorRequest,
    ProgressAnswer,
    ProgressRequest,
    RegisterAnswer,
    RegisterRequest,
)
from shiftboss.protocol.problems import invalid_request
from shiftboss.protocol.swarms import CreateSwarmAnswer, CreateSwarmRequest
from shiftboss.server.http.exchange import Headers, idempotency_key


class Report(NamedTuple):
    """`waits`: its answer may take long."""

    request: type[Request]
    answer: type[Answer]
    use_case: Callable[..., Awaitable[Answer]]
    summary: str
    waits: bool = False


OPERATIONS: dict[str, Report] = {
    "register": Report(
        RegisterRequest, RegisterAnswer, SwarmService.register, "A worker takes its packet."
    ),
    "progress": Report(
        ProgressRequest, ProgressAnswer, SwarmService.progress, "How a task of the packet goes."
    ),
    "complete": Report(
        CompleteRequest,
        CompleteAnswer,
        SwarmService.complete,
        "The packet is done. With a handoff, the server looks at its commit first.",
        waits=True,
    ),
    "error": Report(ErrorRequest, ErrorAnswer, SwarmService.error, "A task failed."),
}


class ReportCall(NamedTuple):
    """See `shiftboss.server.http.calls.Call`."""

    coordinator: Coordinator
    swarm_id: str
    report: Report

    @property
    def waits(self) -> bool:
        return self.report.waits

    @property
    def prompt(self) -> bool:
        return False  # dashboards wait for the news

    def begin(self, headers: Headers, body: bytes) -> Awaitable[Answer]:
        if not is_swarm_id(self.swarm_id):
            raise UnknownSwarm(self.swarm_id)
        request = parse(self.report.request, body)
        key = idempotency_key(headers)
        return self.report.use_case(self.coordinator.swarms, self.swarm_id, request, key)

    def rendered(self, answer: Answer) -> bytes:
        return answer.__pydantic_serializer__.to_json(answer)

    def refused(self, error: ShiftbossError) -> ShiftbossError:
        return error


class Reports:
    """POST /swarm/{swarm_id}/register, progress, complete and error."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    def find(self, path: str) -> ReportCall | None:
        parts = path.split("/")
        if len(parts) != 4 or parts[1] != "swarm":
            return None
        report = OPERATIONS.get(parts[3])
        return None if report is None else ReportCall(self._coordinator, parts[2], report)


def parse(model: type[Request], body: bytes) -> Any:
    try:
        return model.__pydantic_validator__.validate_json(body)
    except ValidationError as error:
        raise invalid_request(error) from None


# Creating a swarm, with the address where it can be reached in the answer.


async def create_swarm(
    coordinator: Coordinator, request: CreateSwarmRequest, address: str
) -> CreateSwarmAnswer:
    swarm = await coordinator.swarms.create_swarm(request)
    return CreateSwarmAnswer(
        swarm_id=swarm.swarm_id,
        endpoint=f"{address}/swarm/{swarm.swarm_id}",
        created_at=wire_time(swarm.created_at_ms),
        auto_merge=swarm.auto_merge,
        notify_on_complete=swarm.notify_on_complete,
    )
