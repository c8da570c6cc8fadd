"""A span of a task's trace, and the names of its attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from shiftboss.protocol.trace_ids import attempt_span_id_of, span_id_of, trace_id_of

AttributeValue = str | int | float | bool

SWARM: Final = "shiftboss.swarm.id"
TASK: Final = "shiftboss.task.id"
EPOCH: Final = "shiftboss.attempt.epoch"
WORKER: Final = "shiftboss.worker.name"
RESULT: Final = "shiftboss.result"
CLAIM: Final = "shiftboss.claim.id"
CHECK: Final = "shiftboss.check.name"
COMMIT: Final = "shiftboss.commit"
REPO: Final = "shiftboss.repo"
QUESTION: Final = "shiftboss.question.id"
PROCESS: Final = "shiftboss.agent.process"
DOLLARS: Final = "shiftboss.usage.dollars"
VERIFIER: Final = "shiftboss.verifier.name"
VERIFIER_WAIT: Final = "shiftboss.verifier.wait_ms"
EXIT_CODE: Final = "process.exit.code"
ERROR_TYPE: Final = "error.type"


# What the protocol can hold. A single value beyond it would hold up all traces.
_INTEGER_MAX: Final = 2**63 - 1


class Span(NamedTuple):
    """`ids` and `attributes` follow from stored events alone: a span that is made again is the
    same. It has names and ids, and no text of a task or an agent. `error`: what went wrong, in one
    word of the code. `claim_id`: the claim whose checks are its children."""

    name: str
    swarm_id: str
    task_id: str
    span_id: str
    parent_id: str | None
    start_ms: int
    end_ms: int
    attributes: Mapping[str, AttributeValue]
    error: str | None = None
    claim_id: int | None = None

    @property
    def trace_id(self) -> str:
        return trace_id_of(self.swarm_id, self.task_id)


def task_span(
    name: str,
    task: tuple[str, str],
    id_parts: tuple[str | int, ...],
    times_ms: tuple[int, int],
    *,
    epoch: int | None = None,
    attributes: Mapping[str, AttributeValue | None] | None = None,
    error: str | None = None,
    claim_id: int | None = None,
) -> Span:
    """Part of an attempt if there is an `epoch`, else of the task itself. Attributes that are None
    are left out."""
    swarm_id, task_id = task
    is_root = not id_parts
    root_id = span_id_of(swarm_id, task_id)
    own_id = span_id_of(swarm_id, task_id, *id_parts)
    parent_id = None if is_root else root_id
    if epoch is not None:
        attempt_id = attempt_span_id_of(swarm_id, task_id, epoch)
        parent_id = root_id if own_id == attempt_id else attempt_id
    all_attributes: dict[str, AttributeValue | None] = {
        SWARM: swarm_id,
        TASK: task_id,
        EPOCH: epoch,
        **(attributes or {}),
        ERROR_TYPE: error,
    }
    start_ms, end_ms = times_ms
    return Span(
        name=name,
        swarm_id=swarm_id,
        task_id=task_id,
        span_id=own_id,
        parent_id=parent_id,
        start_ms=max(min(start_ms, end_ms), 0),
        end_ms=end_ms,
        attributes={
            key: _bounded(value) for key, value in all_attributes.items() if value is not None
        },
        error=error,
        claim_id=claim_id,
    )


def _bounded(value: AttributeValue) -> AttributeValue:
    if isinstance(value, int):
        return max(min(value, _INTEGER_MAX), -_INTEGER_MAX)
    return value
