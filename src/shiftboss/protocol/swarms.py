"""Requests and responses about swarms."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from shiftboss.protocol.bus import HoldView, ReasonView
from shiftboss.protocol.deployment.servers import ReadinessProblemView
from shiftboss.protocol.fields import Answer, Note, Request, SwarmId

WORKERS_EXPECTED_MAX = 10_000


class CreateSwarmRequest(Request):
    """The server chooses a `swarm_id` if it is left out. With `workers_expected`, the swarm is not
    complete before that many workers have registered."""

    swarm_id: SwarmId | None = None
    feature: Note = ""
    manifest_path: Note = ""
    auto_merge: bool = False
    notify_on_complete: bool = True
    workers_expected: Annotated[int, Field(ge=1, le=WORKERS_EXPECTED_MAX)] | None = None


class CreateSwarmAnswer(Answer):
    swarm_id: str
    endpoint: str
    created_at: str
    auto_merge: bool
    notify_on_complete: bool


class RetryView(Answer):
    """A retry that is `scheduled` for later, or `due` now."""

    task_id: str
    attempt: int
    state: str
    due_at: str


class WorkerView(Answer):
    packet_id: int
    packet_name: str
    status: str
    attempt: int
    tasks_completed: int
    tasks_total: int
    worktree: str
    registered_at: str
    last_update: str
    completed_at: str | None
    final_commit: str | None
    tests_passed: bool | None
    review_passed: bool | None
    last_error: str | None
    retries: list[RetryView]


class SwarmWork(Answer):
    """The tasks of the bus: how many have which status, what was accepted and has landed, what is
    open, what it cost. `reviews` are accepted and wait for approval, `refused_starts` could not get
    their contract, no verifier can look at `stuck_claims`. `workers` have a task
    or wait for one."""

    total: int
    open: int
    queued: int
    active: int
    done: int
    failed: int
    cancelled: int
    receipts: int
    landed: int
    questions: int
    scope_requests: int
    holds: int
    reviews: int
    refused_starts: int
    stuck_claims: int
    workers: int
    tokens: int
    dollars: float
    unpriced_tokens: int


class SwarmStatus(Answer):
    swarm_id: str
    feature: str
    status: str
    workers_registered: int
    workers_running: int
    workers_complete: int
    workers_failed: int
    workers_expected: int | None
    remaining_workers: int
    tasks_completed: int
    tasks_total: int
    ready_for_merge: bool
    auto_merge: bool
    created_at: str
    completed_at: str | None
    last_update: str
    last_event_id: int
    workers: list[WorkerView]
    # Why the swarm or some of its tasks are not handed out.
    holds: list[HoldView] = Field(default=[])
    bus: SwarmWork
    # What waits for a person, or for another task to get out of the way.
    waiting: list[ReasonView] = Field(default=[])
    # The plan that the last run of the swarm has read, and the command that continues it.
    plan_file: str | None = None
    run_command: str | None = None


class SwarmSummary(Answer):
    swarm_id: str
    feature: str
    status: str
    workers_registered: int
    workers_complete: int
    workers_failed: int
    created_at: str
    completed_at: str | None
    last_update: str
    bus: SwarmWork


class SwarmList(Answer):
    """Newest first. `next_before` requests the next page."""

    swarms: list[SwarmSummary]
    next_before: str | None


class HealthAnswer(Answer):
    """`degraded`: the server answers, and something is wrong; with a token, `problems` say what."""

    status: Literal["healthy", "degraded"]
    version: str
    store: str
    uptime_seconds: int
    started_at: str
    problems: list[ReadinessProblemView] | None = None
