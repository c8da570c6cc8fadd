"""The inbox: what waits for a person, in one swarm or in all of them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from shiftboss.protocol.fields import Answer, Request, SwarmId
from shiftboss.protocol.questions import Dispute

ITEMS_MAX = 200

InboxKind = Literal[
    "question",
    "permission",
    "scope",
    "review",
    "dispute",
    "budget",
    "pause",
    "escalation",
    "stuck_claim",
    "failed",
    "refused_start",
    "landing",
    "not_running",
    "dependency",
]


class ListInboxRequest(Request):
    """Without `swarm_id`, all swarms that the caller may read. With `shared`, one answer for all
    readers of the change feed that have got the same frame."""

    swarm_id: SwarmId | None = None
    shared: bool = False


class BudgetFacts(Answer):
    """`scope` is task or swarm. `limit` is the one that is reached, in `unit`: tokens or dollars.
    `tokens` and `dollars` are all limits of the budget: `set_budget` removes one that is left out.
    """

    scope: str
    unit: str
    limit: float
    spent: float
    tokens: int | None = None
    dollars: float | None = None


class InboxItem(Answer):
    """`text` is the whole question of a worker, or one sentence. `command` helps, `also` are
    others. Members without a value are left out."""

    kind: InboxKind
    swarm_id: str
    bead_id: str | None = None
    title: str | None = None
    text: str
    command: str | None = None
    also: list[str] = Field(default=[])
    since: int | None = None
    until: int | None = None
    worker: str | None = None
    contact: str | None = None
    question_id: int | None = None
    request_id: int | None = None
    paths: list[str] = Field(default=[])
    dispute: Dispute | None = None
    claim_id: int | None = None
    commit: str | None = None
    receipt_id: str | None = None
    refused_by: list[str] = Field(default=[])
    budget: BudgetFacts | None = None
    tool: str | None = None


class Inbox(Answer):
    """`total` counts the items that are left out as well. `swarms` has the ids of the newest events
    that the items show, by swarm."""

    items: list[InboxItem]
    total: int
