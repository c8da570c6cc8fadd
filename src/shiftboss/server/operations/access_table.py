"""Every kind of request with the permission that it needs, for the reference and the tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from shiftboss.rules.access.roles import Permission, Role
from shiftboss.server.operations.authorization import ASSIGN_PERMISSION
from shiftboss.server.operations.bus import BUS_OPERATIONS
from shiftboss.server.operations.handoffs import OPERATOR_OPERATIONS
from shiftboss.server.operations.swarms import CREATE_SWARM, REPORTS

# In the order of the reference.
ROLES: Final = (
    Role.READ_ONLY,
    Role.WORKER,
    Role.SPAWNER,
    Role.ORCHESTRATOR,
    Role.VERIFIER,
    Role.OPERATOR,
    Role.ANYBODY,
)


def permissions_needed() -> Iterator[tuple[str, Permission]]:
    """The method and the path of each, such as `POST /bus/add_task`."""
    yield "POST /swarm/create", CREATE_SWARM
    yield "GET /swarms", Permission.READ
    yield "GET /swarm/{swarm_id}/status", Permission.READ
    yield "GET /swarm/{swarm_id}/events", Permission.READ
    yield "GET /changes", Permission.READ
    for name, report in REPORTS.items():
        yield f"POST /swarm/{{swarm_id}}/{name}", report.permission
    yield "POST /messages", Permission.WORK
    yield "POST /messages, an assign message", ASSIGN_PERMISSION
    for name, operation in BUS_OPERATIONS.items():
        yield f"POST /bus/{name}", operation.permission
    for name, operation in OPERATOR_OPERATIONS.items():
        yield f"POST /operator/{name}", operation.permission
