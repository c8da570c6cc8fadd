"""The tree of errors, with one stable code each.

ShiftbossError
├── InvalidRequest          422  the words of the request are wrong; names the field
│   └── BodyTooLarge        413
├── NotFound                404
│   ├── UnknownSwarm
│   ├── UnknownPacket
│   └── UnknownPath
├── MethodNotAllowed        405
├── Conflict                409  the words are right, the state says no
│   ├── SwarmExists
│   ├── PacketConflict
│   ├── PacketFinished
│   ├── CounterRegression
│   └── KeyReused
├── Forbidden               403
├── Unauthorized            401
└── StoreUnavailable        503  nothing was promised; say it again later
    └── DatabaseInUse
"""

from __future__ import annotations

from typing import ClassVar


class ShiftbossError(Exception):
    """Base of all errors that a caller can meet.

    `field` is the member of the request that is to blame, where there is one; `hint` says what to
    do about it; `facts` are further members of the answer, such as the recorded counter.
    """

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 500
    title: ClassVar[str] = "Error"

    def __init__(
        self,
        detail: str,
        *,
        field: str | None = None,
        hint: str | None = None,
        facts: dict[str, object] | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.field = field
        self.hint = hint
        self.facts = facts or {}


class InvalidRequest(ShiftbossError):
    code = "invalid_request"
    status = 422
    title = "The request is not valid"


class BodyTooLarge(InvalidRequest):
    code = "body_too_large"
    status = 413
    title = "The body is too large"


class NotFound(ShiftbossError):
    code = "not_found"
    status = 404
    title = "Not found"


class UnknownSwarm(NotFound):
    code = "unknown_swarm"
    title = "Unknown swarm"

    def __init__(self, swarm_id: str) -> None:
        super().__init__(
            f"Unknown swarm: {swarm_id}",
            field="swarm_id",
            hint="create it first: POST /swarm/create, or `shiftboss swarm create`",
        )


class UnknownPacket(NotFound):
    code = "unknown_packet"
    title = "Unknown packet"

    def __init__(self, swarm_id: str, packet_id: int) -> None:
        super().__init__(
            f"Unknown packet in swarm {swarm_id}: {packet_id}",
            field="packet_id",
            hint=f"register it first: POST /swarm/{swarm_id}/register",
        )


class UnknownPath(NotFound):
    code = "unknown_path"


class MethodNotAllowed(ShiftbossError):
    code = "method_not_allowed"
    status = 405
    title = "Method not allowed"


class Conflict(ShiftbossError):
    code = "conflict"
    status = 409
    title = "Conflict"


class SwarmExists(Conflict):
    code = "swarm_exists"
    title = "The swarm exists with other settings"


class PacketConflict(Conflict):
    code = "packet_conflict"
    title = "The packet is registered otherwise"


class PacketFinished(Conflict):
    code = "packet_finished"
    title = "The packet has finished"


class CounterRegression(Conflict):
    code = "counter_regression"
    title = "tasks_completed went down"


class KeyReused(Conflict):
    code = "idempotency_key_reused"
    title = "The idempotency key belongs to another report"


class Forbidden(ShiftbossError):
    code = "forbidden"
    status = 403
    title = "Forbidden"


class Unauthorized(ShiftbossError):
    code = "unauthorized"
    status = 401
    title = "A token is needed"


class StoreUnavailable(ShiftbossError):
    code = "store_unavailable"
    status = 503
    title = "The store did not take it"


class DatabaseInUse(StoreUnavailable):
    code = "database_in_use"
    title = "Another server has this database"
