"""Which events may lead to a notification, and of which kind."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from shiftboss.protocol.events import EventKind
from shiftboss.protocol.notifications.settings import NotificationKind

# A scope request and a dispute ask a question, which is in the outbox.
NOTIFIED: Final = frozenset(
    {
        EventKind.QUESTION_ASKED,
        EventKind.TIMEOUT_ESCALATED,
        EventKind.CLAIM_ACCEPTED,
        EventKind.CLAIM_REFUSED,
        EventKind.CLAIM_ESCALATED,
        EventKind.REVIEW_REQUESTED,
        EventKind.BUDGET_EXCEEDED,
        EventKind.CI_FAILED,
        EventKind.CHAIN_HALTED,
        EventKind.TASK_FAILED,
        EventKind.WORKER_ERROR,
        EventKind.SWARM_COMPLETE,
    }
)

# How far apart the events of one transaction may be that are about the same thing.
SIBLINGS_APART_MAX: Final = 8

# The events that ask their question in the same transaction: the question is notified of, and says
# more. The first that fits names the kind.
_ASKING: Final[tuple[tuple[EventKind, NotificationKind], ...]] = (
    (EventKind.CHAIN_HALTED, "halt"),
    (EventKind.BUDGET_EXCEEDED, "budget"),
    (EventKind.SCOPE_REQUESTED, "scope_request"),
    (EventKind.CONTRACT_DISPUTED, "dispute"),
    (EventKind.TIMEOUT_ESCALATED, "escalation"),
    (EventKind.CLAIM_REFUSED, "escalation"),
    (EventKind.FAILURE_REPORTED, "escalation"),
    (EventKind.CI_FAILED, "escalation"),
    (EventKind.TASK_FAILED, "escalation"),
)
# Those of which nothing is left to say once the question is.
_ABSORBED: Final = frozenset(
    {
        EventKind.CHAIN_HALTED.value,
        EventKind.BUDGET_EXCEEDED.value,
        EventKind.TIMEOUT_ESCALATED.value,
        EventKind.TASK_FAILED.value,
    }
)


class EventFacts(NamedTuple):
    """An event with its data parsed."""

    event_id: int
    kind: str
    at_ms: int
    data: Mapping[str, Any]


def siblings_of(event: EventFacts, around: Collection[EventFacts]) -> list[EventFacts]:
    """The events of the same moment about the same task: those of the same transaction."""
    return [
        other
        for other in around
        if other.event_id != event.event_id
        and abs(other.event_id - event.event_id) <= SIBLINGS_APART_MAX
        and other.at_ms == event.at_ms
        and other.data.get("bead_id") == event.data.get("bead_id")
    ]


def question_kind(siblings: Collection[EventFacts]) -> NotificationKind:
    """Of a question: what led to it."""
    kinds = {sibling.kind for sibling in siblings}
    return next((kind for event, kind in _ASKING if event.value in kinds), "question")


def is_absorbed(event: EventFacts, siblings: Collection[EventFacts]) -> bool:
    """Whether a question of the same transaction says it."""
    asks = any(sibling.kind == EventKind.QUESTION_ASKED.value for sibling in siblings)
    return asks and event.kind in _ABSORBED
