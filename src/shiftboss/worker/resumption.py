"""Coming back after a restart: the server knows best how far a packet has come."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from shiftboss.errors import ShiftbossError, UnknownPacket
from shiftboss.protocol.packets import CompleteRequest, Report
from shiftboss.protocol.swarms import WorkerView
from shiftboss.worker.checkpoints import (
    DamagedCheckpointError,
    read_checkpoint,
    remove_own_checkpoint,
)
from shiftboss.worker.deadlines import Deadline
from shiftboss.worker.exchange import checked
from shiftboss.worker.reporter import Reporter, Standing

log = logging.getLogger(__name__)


def settle(reporter: Reporter, standing: Standing, deadline: Deadline) -> int:
    """How many tasks are completed by the server's count, once the packet is registered and none
    of its reports waits. The checkpoint says the same afterwards, or is gone with its swarm.

    What the checkpoint said, when the server does not tell.
    """
    try:
        status = reporter.status(standing.swarm_id, deadline)
        known = _packet_in(status, standing.packet_id)
        settled = standing.model_copy(update={"tasks_completed": known.tasks_completed})
        report = _last_report(settled, known)
    except (ShiftbossError, ValidationError) as error:
        log.warning("packet %s goes on from its checkpoint: %s", standing.packet_id, error)
        return standing.tasks_completed
    if not (remove_own_checkpoint(standing, status) or _tells_of(settled, report)):
        reporter.correct(settled, report)
    return settled.tasks_completed


class _Listing(BaseModel):
    workers: list[dict[str, Any]]


def _packet_in(status: Mapping[str, Any], packet_id: int) -> WorkerView:
    for worker in _Listing.model_validate(status).workers:
        if worker.get("packet_id") == packet_id:
            return WorkerView.model_validate(worker)
    raise UnknownPacket(str(status.get("swarm_id")), packet_id)


def _last_report(standing: Standing, known: WorkerView) -> Report:
    """The report that the checkpoint has to tell of; whoever cleans up looks for a completion."""
    if known.status != "complete":
        return standing.registration()
    return checked(
        CompleteRequest,
        packet_id=known.packet_id,
        final_commit=known.final_commit,
        tests_passed=known.tests_passed,
        review_passed=known.review_passed,
    )


def _tells_of(standing: Standing, report: Report) -> bool:
    event = "complete" if isinstance(report, CompleteRequest) else "registered"
    try:
        found = read_checkpoint(standing)
    except DamagedCheckpointError:
        return False
    return found is not None and (found.event, found.tasks_completed) == (
        event,
        standing.tasks_completed,
    )
