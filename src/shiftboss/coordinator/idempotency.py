"""Idempotency: repeated reports change nothing and get the first answer.

A report is identified by the sender's idempotency key, or without one by its content within the
attempt. A digest of either is stored with the event that the report led to, and a repeat is
answered from that event. Use cases that write no such event store their answer instead
(`write_once`).
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from hashlib import blake2b
from typing import Any, TypeVar, get_type_hints, overload

from shiftboss.coordinator.bus.dispatch import take_swarm
from shiftboss.coordinator.clock import Clock
from shiftboss.errors import KeyReused, UnknownPacket
from shiftboss.protocol.bus import AckRequest, BusRequest, DoneRequest, TaskFailedRequest
from shiftboss.protocol.events import Event, EventKind
from shiftboss.protocol.fields import Answer
from shiftboss.protocol.packets import (
    CompleteRequest,
    ErrorRequest,
    ProgressRequest,
    RegisterRequest,
)
from shiftboss.rules.access.actors import Actor
from shiftboss.rules.access.scope import check_worker
from shiftboss.rules.tasks.packets import Assignment, packet_task_id
from shiftboss.store.port import Store, Transaction

T = TypeVar("T", bound=Answer)

BusReport = AckRequest | DoneRequest | TaskFailedRequest
KeyedReport = ProgressRequest | CompleteRequest | ErrorRequest
AnyReport = KeyedReport | RegisterRequest


# One name for all reports of a packet, so that a key that is reused for another kind of report is
# found and refused.
PACKET_REPORT = "packet"


def take(
    tx: Transaction,
    swarm_id: str,
    name: str,
    report: KeyedReport,
    key: str | None,
    *,
    by_content: bool = True,
) -> tuple[Assignment, bytes | None, Event | None]:
    """The assignment that a report is about, the digest that identifies the report, and the event
    that it led to if it is a repeat.

    Without a key, the content identifies it, where `by_content` allows that.
    """
    task_id = packet_task_id(report.packet_id)
    if key is not None:
        report_key = report_digest(PACKET_REPORT, key)
        assignment, first = tx.take_reported(swarm_id, task_id, report_key)
        if assignment is None:
            raise UnknownPacket(swarm_id, report.packet_id)
        check_worker(tx.actor, assignment.worker, "packet_id")
        return assignment, report_key, first
    assignment = tx.take_assignment(swarm_id, task_id)
    if assignment is None:
        raise UnknownPacket(swarm_id, report.packet_id)
    check_worker(tx.actor, assignment.worker, "packet_id")
    if not by_content:
        return assignment, None, None
    report_key = content_digest(name, assignment, report)
    return assignment, report_key, tx.event_of_report(swarm_id, task_id, report_key)


def content_digest(name: str, assignment: Assignment, report: KeyedReport) -> bytes:
    """Identifies a report without a key."""
    return _digest(f"{name}\0words\0{assignment.epoch}\0{report.model_dump_json()}")


@overload
def report_digest(name: str, key: str) -> bytes: ...


@overload
def report_digest(name: str, key: None) -> None: ...


def report_digest(name: str, key: str | None) -> bytes | None:
    """Identifies a report with a key."""
    return None if key is None else _digest(f"{name}\0key\0{key}")


def _digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()


def event_of_same_report(
    tx: Transaction, assignment: Assignment, report: ProgressRequest
) -> Event | None:
    """The event of the same report under another key.

    Only needed for a report that would be refused: a worker that starts over repeats its reports
    with new keys. Only `completed` is searched for, because that is what such a worker counts.
    """
    if report.status != "completed":
        return None
    data = progress_data(report, report.tasks_completed)
    return tx.event_with_data(assignment.swarm_id, assignment.task_id, data)


def progress_data(report: ProgressRequest, tasks_completed: int) -> dict[str, Any]:
    """The data of the event of a progress report; `tasks_completed` is the recorded count."""
    return {
        "packet_id": report.packet_id,
        "tasks_completed": tasks_completed,
        "tasks_total": report.tasks_total,
        "task_id": report.task_id,
        "task_name": report.task_name,
        "status": report.status,
        "commit": report.commit,
    }


def data_of_first(
    first: Event,
    kind: EventKind,
    request: AnyReport,
    fields: Sequence[str],
) -> dict[str, Any]:
    """The data of the first report's event. Raises KeyReused when this report differs from it."""
    data: dict[str, Any] = json.loads(first.data)
    if first.kind != kind.value or any(data[field] != getattr(request, field) for field in fields):
        raise key_reused()
    return data


def bus_report(
    tx: Transaction, request: BusReport, report_key: bytes | None
) -> dict[str, Any] | None:
    """The effect of a report about a task when it first came; None if it is the first."""
    first = first_about(
        tx, request.swarm_id, request.bead_id, report_key, request.name, request.epoch
    )
    return None if first is None else json.loads(first.data)


def first_about(
    tx: Transaction,
    swarm_id: str,
    task_id: str,
    report_key: bytes | None,
    name: str | None,
    epoch: int | None,
) -> Event | None:
    """The event that the first report with this key led to; None if this is the first.

    Raises KeyReused when the key belongs to another worker or another attempt: with the old
    answer, the sender would believe that its report was recorded.
    """
    if report_key is None:
        return None
    first = tx.event_of_report(swarm_id, task_id, report_key)
    if first is None:
        return None
    data = json.loads(first.data)
    live = tx.assignment(swarm_id, task_id)
    if epoch is None and live is not None and live.worker == data["worker"]:
        epoch = live.epoch
    if name not in (None, data["worker"]) or epoch not in (None, data["epoch"]):
        raise key_reused()
    return first


def key_reused() -> KeyReused:
    return KeyReused(
        "this idempotency key was used for another report",
        field="Idempotency-Key",
        hint="make a new key for every new report",
    )


def write_once(
    store: Store,
    clock: Clock,
    use_case: Callable[..., T],
    request: BusRequest,
    key: str | None,
) -> Awaitable[T]:
    """Run a writing use case `(tx, request, now_ms)` whose answer is stored under the key.

    A repeat with the same key gets the stored answer and changes nothing. Without a key the use
    case runs as it is.
    """
    now_ms = clock()
    if key is None:
        return store.write(lambda tx: use_case(tx, request, now_ms), request.swarm_id)
    return store.write(
        lambda tx: _stored_answer(tx, use_case, request, key, now_ms), request.swarm_id
    )


def _owner(actor: Actor) -> str:
    """The key of a named person is no way to the answer that the person got. It belongs to the
    name: a repeat may come after a rotation."""
    return f"{actor.name} " if actor.is_named else ""


def _stored_answer(
    tx: Transaction, use_case: Callable[..., T], request: BusRequest, key: str, now_ms: int
) -> T:
    take_swarm(tx, request.swarm_id, now_ms)
    # The name is part of the stored key: a use case that is renamed does not find the answers of
    # its old name, and a repeat that crosses the upgrade runs again.
    report_key = report_digest(f"once {use_case.__name__}", key)
    request_digest = _digest(_owner(tx.actor) + request.content())
    answer: T
    stored = tx.first_answer(request.swarm_id, report_key)
    if stored is not None:
        if stored[0] != request_digest:
            raise key_reused()
        answer_type: type[T] = get_type_hints(use_case)["return"]
        return answer_type.model_validate_json(stored[1])
    answer = use_case(tx, request, now_ms)
    tx.add_answer(request.swarm_id, report_key, request_digest, answer.model_dump_json(), now_ms)
    return answer
