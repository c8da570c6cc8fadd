"""Cards: the tasks of a swarm as the board shows them, with the reason why each is where it is."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from shiftboss.protocol.bus import BusRequest, TaskId
from shiftboss.protocol.fields import INTEGER_MAX, NO_NUL, Answer

CARDS_PER_PAGE_MAX = 1000
IDS_MAX = 500
# How many of the tasks that a card waits for are named.
WAITS_FOR_MAX = 10

Column = Literal["needs_you", "failed", "running", "verifying", "waiting", "accepted", "done"]
Ci = Literal["pending", "passed", "failed", "unreachable"]
PageMark = Annotated[str, StringConstraints(max_length=128, pattern=NO_NUL)]


class ListCardsRequest(BusRequest):
    """With `bead_ids`, only the cards of these tasks. Otherwise a page in the order of the ids:
    `after` is the `next_after` of another page. With `as_of`, an answer that has all events up to
    this one will do, even if it was made for another reader a moment ago."""

    bead_ids: Annotated[list[TaskId], Field(min_length=1, max_length=IDS_MAX)] | None = None
    after: PageMark = ""
    limit: Annotated[int, Field(ge=1, le=CARDS_PER_PAGE_MAX)] = CARDS_PER_PAGE_MAX
    as_of: Annotated[int, Field(ge=0, le=INTEGER_MAX)] | None = None


class Card(Answer):
    """A member that has nothing to say is left out. `reason` is the first that `why_task` gives,
    and `command` helps. `step` is what the worker did last, in its own words. A packet has the id
    `packet-N`, and its worker is the name of the packet."""

    bead_id: str
    title: str
    status: str
    column: Column
    state: str | None = None
    milestone: str | None = None
    substate: str | None = None
    progress: str | None = None
    worker: str | None = None
    agent: str | None = None
    model: str | None = None
    repo: str | None = None
    priority: int = 0
    depends_on: list[str] = Field(default=[])
    epoch: int = 0
    attempt: int = 0
    created_at: int
    updated_at: int
    started_at: int | None = None
    ended_at: int | None = None
    lease_expires_at: int | None = None
    hold: str | None = None
    waits_for: list[str] = Field(default=[])
    waits_count: int = 0
    reason_kind: str
    reason: str
    command: str | None = None
    tokens: int = 0
    dollars: float = 0.0
    budget_dollars: float | None = None
    budget_tokens: int | None = None
    context_usage: float | None = None
    step: str | None = None
    ci: Ci | None = None
    review: str | None = None
    landed_commit: str | None = None
    receipt_id: str | None = None
    claim_id: int | None = None
    refused_by: list[str] = Field(default=[])
    refusals: int = 0
    last_error: str | None = None
    question_ids: list[int] = Field(default=[])
    scope_request_ids: list[int] = Field(default=[])


class CardList(Answer):
    """`last_event_id` is that of the newest event that the cards show."""

    cards: list[Card]
    next_after: str | None = None
    last_event_id: int
    server_time: int
