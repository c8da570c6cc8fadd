"""What has begun for a task and not ended, and one event of it: the material of the spans."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from shiftboss.protocol.events import Event
from shiftboss.rules.tasks.packets import packet_task_id
from shiftboss.rules.traces import span as names
from shiftboss.rules.traces.span import AttributeValue, Span, task_span

Data = dict[str, Any]


class OpenAttempt(NamedTuple):
    epoch: int
    worker: str
    since_ms: int


class OpenTask:
    """What has begun and not ended: the times are those of the events."""

    __slots__ = (
        "accepted_ms",
        "added_ms",
        "attempt",
        "claims",
        "pushed_ms",
        "questions",
        "queued",
        "review_ms",
        "submitted",
    )

    def __init__(self) -> None:
        self.added_ms: int | None = None
        self.submitted = False
        self.queued: tuple[int, int] | None = None  # the time, and the number of the event
        self.attempt: OpenAttempt | None = None
        self.claims: dict[int, tuple[int, int]] = {}  # by id: the time, and the epoch
        self.pushed_ms: int | None = None
        self.questions: dict[int, tuple[int, int]] = {}
        self.accepted_ms: int | None = None
        self.review_ms: int | None = None

    @property
    def is_over(self) -> bool:
        waits = (self.attempt, self.queued, self.accepted_ms, self.review_ms)
        return not self.questions and all(wait is None for wait in waits)


def task_of(data: Data) -> str | None:
    if data.get("packet_id") is not None:
        return packet_task_id(data["packet_id"])
    task_id: str | None = data.get("bead_id")
    return task_id


class SpanStep(NamedTuple):
    """One event of one task."""

    swarm_id: str
    task_id: str
    event: Event
    data: Data
    task: OpenTask

    @property
    def at_ms(self) -> int:
        return self.event.at_ms

    def span(
        self,
        name: str,
        id_parts: tuple[str | int, ...],
        since_ms: int,
        epoch: int | None = None,
        error: str | None = None,
        claim_id: int | None = None,
        **attributes: AttributeValue | None,
    ) -> Span:
        return task_span(
            name,
            (self.swarm_id, self.task_id),
            id_parts,
            (since_ms, self.at_ms),
            epoch=epoch,
            attributes={_ATTRIBUTES[key]: value for key, value in attributes.items()},
            error=error,
            claim_id=claim_id,
        )


_ATTRIBUTES: Final = {
    "worker": names.WORKER,
    "result": names.RESULT,
    "claim": names.CLAIM,
    "commit": names.COMMIT,
    "repo": names.REPO,
    "question": names.QUESTION,
}
