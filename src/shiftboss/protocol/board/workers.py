"""Workers as the page shows them, with what is known about their current attempt."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from shiftboss.protocol.bus import BusRequest
from shiftboss.protocol.fields import NO_NUL, Answer

WORKERS_PER_PAGE_MAX = 2000


class ListWorkersRequest(BusRequest):
    """`after` is the `next_after` of another page, which are in the order of the names."""

    after: Annotated[str, StringConstraints(max_length=128, pattern=NO_NUL)] = ""
    limit: Annotated[int, Field(ge=1, le=WORKERS_PER_PAGE_MAX)] = WORKERS_PER_PAGE_MAX


class WorkerCard(Answer):
    """`status` is idle, polling, pending or executing. Members without a value are left out;
    `tokens` and `dollars` are those of its task."""

    name: str
    status: str
    state: str | None = None
    task: str | None = None
    title: str | None = None
    epoch: int | None = None
    started_at: int | None = None
    lease_expires_at: int | None = None
    milestone: str | None = None
    substate: str | None = None
    progress: str | None = None
    context_usage: float | None = None
    step: str | None = None
    tokens: int = 0
    dollars: float = 0.0
    idle_seconds: int = 0
    agent: str | None = None
    model: str | None = None


class WorkerList(Answer):
    workers: list[WorkerCard]
    next_after: str | None = None
    last_event_id: int
    server_time: int
