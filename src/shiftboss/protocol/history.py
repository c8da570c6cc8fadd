"""Requests and responses about what has happened: events, claims, logs, replays of a swarm."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, StringConstraints

from shiftboss.protocol.board.cards import Column
from shiftboss.protocol.bus import BusRequest, Epoch, TaskId
from shiftboss.protocol.claims.verdicts import Canary, Mutant, MutantTotals, TestTotals, Violation
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.fields import INTEGER_MAX, NO_NUL, Answer

EVENTS_LISTED_MAX = 500
EventId = Annotated[int, Field(ge=0, le=INTEGER_MAX)]


class ListEventsRequest(BusRequest):
    """Newest first: those before `before`, by default the newest; with `after`, oldest first those
    after it."""

    bead_id: TaskId | None = None
    kinds: Annotated[list[EventKind], Field(min_length=1, max_length=100)] | None = None
    before: EventId | None = None
    after: EventId | None = None
    limit: Annotated[int, Field(ge=1, le=EVENTS_LISTED_MAX)] = 100


class EventView(Answer):
    """`actor` caused it; empty for events of older versions. `bead_id` is the task that it is
    about."""

    event_id: int
    kind: str
    at: int
    actor: str
    bead_id: str | None
    data: dict[str, Any]


class EventList(Answer):
    """`next_before` or `next_after` continues, whichever was asked for; with a filter there may be
    no event on a page, and still more to come. Events before `first_event_id` are deleted."""

    events: list[EventView]
    next_before: int | None = None
    next_after: int | None = None
    first_event_id: int
    last_event_id: int


class ListTaskClaimsRequest(BusRequest):
    bead_id: TaskId
    limit: Annotated[int, Field(ge=1, le=50)] = 20


class CheckView(Answer):
    """One check of a verdict. `result` is passed, failed, unverifiable or waived; `evidence` is the
    end of what its command printed."""

    name: str
    result: str
    detail: str
    subject: str | None = None
    evidence: str | None = None
    exit_code: int | None = None
    duration_ms: int = 0
    sandbox: str | None = None
    tests: TestTotals | None = None
    mutant_totals: MutantTotals | None = None


class CanaryView(Canary):
    """`subject` is the criterion whose tests were sabotaged."""

    subject: str | None = None


class MutantView(Mutant):
    """`subject` is the criterion whose tests should have noticed."""

    subject: str | None = None


class TaskClaimView(Answer):
    """`commit` is what was verified, or else what the worker named. `state` is waiting, taken,
    accepted, refused or void. Without a verdict, there are no checks."""

    claim_id: int
    epoch: int
    worker: str
    state: str
    commit: str | None
    base_commit: str | None
    contract_version: int
    summary: str
    made_at: int
    taken_at: int | None
    decided_at: int | None
    escalated_at: int | None
    verifier: str | None
    tries: int
    checks: list[CheckView] = Field(default=[])
    canaries: list[CanaryView] = Field(default=[])
    mutants: list[MutantView] = Field(default=[])
    violations: list[Violation] = Field(default=[])
    files_changed: int | None = None
    lines_added: int | None = None
    lines_deleted: int | None = None
    duration_ms: int | None = None
    receipt_id: str | None = None


class TaskClaimList(Answer):
    """The newest first."""

    claims: list[TaskClaimView]


class ReadLogRequest(BusRequest):
    """What the agent of a hand-out printed; without `epoch`, of the newest. `after` is the `next`
    of another page. Without it, from the beginning, or with `tail` the last lines."""

    bead_id: TaskId
    epoch: Epoch | None = None
    after: Annotated[str, StringConstraints(pattern=r"^[0-9.-]{1,100}$")] | None = None
    tail: bool = False
    limit: Annotated[int, Field(ge=1, le=2000)] = 500


class AttemptView(Answer):
    """A hand-out of a task whose output is there. `agent` is its kind, as plans name it."""

    epoch: int
    agent: str
    model: str | None
    started_at: int | None
    ended_at: int | None


class LogLineView(Answer):
    """`n` is the number of the line in its stream. `kind` is text, tool, denied, limit, error,
    finished or stderr. `at` is for agents that say when; none does yet."""

    n: int
    at: int | None = None
    kind: str
    text: str


class LogAnswer(Answer):
    """`next` continues; with `more`, there are lines already. `live`: the agent may still print
    something. If not `available`, `reason` says why, and `command` reads the log elsewhere."""

    epoch: int | None = None
    attempts: list[AttemptView] = Field(default=[])
    lines: list[LogLineView] = Field(default=[])
    next: str | None = None
    more: bool = False
    live: bool = False
    available: bool
    reason: str | None = None
    command: str


class ReplaySwarmRequest(BusRequest):
    """The swarm as it was after the event `at`, by default the last; with `bead_id`, only this task
    of it. `after` is the `next_after` of another page of its tasks."""

    bead_id: TaskId | None = None
    at: EventId | None = None
    after: Annotated[str, StringConstraints(max_length=128, pattern=NO_NUL)] = ""
    limit: Annotated[int, Field(ge=1, le=2000)] = 2000


class ReplayedTask(Answer):
    """A task or a packet as it was. Members that nothing had been told about are left out."""

    bead_id: str
    title: str
    status: str
    column: Column
    state: str | None = None
    worker: str | None = None
    epoch: int = 0
    milestone: str | None = None
    depends_on: list[str] = Field(default=[])
    waits_for: int = 0
    failures: int | None = None
    questions: int = 0
    claim_id: int | None = None
    in_review: bool = False
    accepted_commit: str | None = None
    landed: str | None = None


class ReplayedWorker(Answer):
    """`task` is what it worked on; None while it was idle."""

    name: str
    task: str | None = None
    state: str | None = None
    epoch: int | None = None


class ReplayAnswer(Answer):
    """`counts` are of all tasks, by column; `next_after` continues with more tasks. `lands`: the
    swarm runs a plan, whose accepted work is to land. `holds` are the kinds of those of the whole
    swarm. What was spent is not in the events: `dollars` is null."""

    at: int
    event: EventView | None
    first_event_id: int
    last_event_id: int
    complete: bool
    lands: bool
    counts: dict[str, int]
    tasks: list[ReplayedTask]
    next_after: str | None = None
    workers: list[ReplayedWorker]
    holds: list[str]
    dollars: float | None = None
