"""Reports that come again.

A report is known by the sender's key, or else by its words within the attempt. The key is kept
with the event that the report led to; a repeat is answered from that event and changes nothing.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

from shiftboss.errors import KeyReused, UnknownPacket
from shiftboss.protocol.events import Event, EventKind
from shiftboss.protocol.reports import CompleteRequest, ErrorRequest, ProgressRequest
from shiftboss.rules.packets import Assignment, packet_task_id
from shiftboss.store.port import Transaction

KeyedReport = ProgressRequest | CompleteRequest | ErrorRequest


def take(
    tx: Transaction,
    swarm_id: str,
    name: str,
    report: KeyedReport,
    key: str | None,
    *,
    by_words: bool = True,
) -> tuple[Assignment, bytes | None, Event | None]:
    """The assignment that a report is about, what the report is known by, and the event that it
    led to if it was here before.

    Without a key it is known by its words, where `by_words` allows it.
    """
    task_id = packet_task_id(report.packet_id)
    if key is not None:
        report_key = _digest(f"{name}\0key\0{key}")
        assignment, first = tx.take_reported(swarm_id, task_id, report_key)
        if assignment is None:
            raise UnknownPacket(swarm_id, report.packet_id)
        return assignment, report_key, first
    assignment = tx.take_assignment(swarm_id, task_id)
    if assignment is None:
        raise UnknownPacket(swarm_id, report.packet_id)
    if not by_words:
        return assignment, None, None
    report_key = _digest(f"{name}\0words\0{assignment.epoch}\0{report.model_dump_json()}")
    return assignment, report_key, tx.event_of_report(swarm_id, task_id, report_key)


def _digest(words: str) -> bytes:
    return blake2b(words.encode(), digest_size=16).digest()


def said_first(
    first: Event,
    kind: EventKind,
    request: KeyedReport,
    fields: tuple[str, ...],
) -> dict[str, Any]:
    """What was said the first time; refused when the same key now comes with other words."""
    said: dict[str, Any] = json.loads(first.data)
    if first.kind != kind or any(said[field] != getattr(request, field) for field in fields):
        raise KeyReused(
            "this idempotency key was used for another report",
            field="Idempotency-Key",
            hint="make a new key for every new report",
        )
    return said
