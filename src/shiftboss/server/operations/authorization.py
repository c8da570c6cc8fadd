"""Whether an actor may make a request: what its role allows, and what its token is limited to.

HTTP, MCP and the fast path ask the same functions. What a request leaves out (the swarm, the task,
the worker) is filled in from the token, so that a caller that is limited need not repeat it.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple, TypeVar

from shiftboss.errors import Forbidden
from shiftboss.protocol.fields import Request
from shiftboss.protocol.messages import Message, MessageType
from shiftboss.protocol.questions import MessageRequest
from shiftboss.rules.access.actors import Actor
from shiftboss.rules.access.roles import Permission
from shiftboss.rules.access.scope import (
    check_permission,
    check_swarm,
    check_task,
    check_worker,
)
from shiftboss.rules.tasks.packets import packet_task_id

R = TypeVar("R", bound=Request)

SWARM_FIELD: Final = "swarm_id"
TASK_FIELD: Final = "bead_id"
TASKS_FIELD: Final = "bead_ids"
PACKET_FIELD: Final = "packet_id"
MESSAGE_FIELD: Final = "message"
POLL_FIELD: Final = "poll"
WORKER_FIELDS: Final = ("name", "worker_name", "verifier", "packet_name")
# The orchestrator sends these, not a worker.
ASSIGN_PERMISSION: Final = Permission.STEER


class _Names(NamedTuple):
    """The fields by which a type of request names what it is about."""

    swarm: bool
    task: bool
    packet: bool
    message: bool
    worker: str | None
    poll: bool


@cache
def _names(request: type[Request]) -> _Names:
    fields = request.model_fields
    worker = next((field for field in WORKER_FIELDS if field in fields), None)
    return _Names(
        SWARM_FIELD in fields,
        TASK_FIELD in fields,
        PACKET_FIELD in fields,
        MESSAGE_FIELD in fields and issubclass(request, MessageRequest),
        worker,
        POLL_FIELD in fields,
    )


def authorize(
    actor: Actor,
    permission: Permission,
    request: R,
    *,
    reads: bool = False,
    swarm_id: str | None = None,
) -> R:
    """The request, with what the token of a limited actor adds to it. `swarm_id` is the one that a
    path names. The permission was checked before the request was parsed, but that of a message
    depends on its type. Raises Forbidden."""
    if isinstance(request, MessageRequest):
        permission = message_permission(permission, request.message.get("type"))
        check_permission(actor, permission)
    return within_limits(actor, request, reads, swarm_id) if actor.is_limited else request


def message_permission(permission: Permission, message_type: object) -> Permission:
    return ASSIGN_PERMISSION if message_type == MessageType.ASSIGN.value else permission


def authorize_message(actor: Actor, message: Message, swarm_id: str | None) -> str | None:
    """For a message without a request around it. Returns the swarm, None if neither the caller nor
    the token names one. The use case checks the task that the worker holds."""
    check_permission(actor, message_permission(Permission.WORK, message.type.value))
    if swarm_id is None:
        swarm_id = actor.swarm_id
    check_swarm(actor, swarm_id)
    _check_message(actor, message.worker_id, getattr(message, "task_id", None))
    return swarm_id


def within_limits(actor: Actor, request: R, reads: bool, swarm_id: str | None = None) -> R:
    if request.is_about_caller:
        return request
    names = _names(type(request))
    additions: dict[str, object] = {}
    if actor.swarm_id is not None:
        _limit_swarm(actor, request, names, swarm_id, additions)
    if actor.task_id is not None:
        _limit_task(actor, request, names, reads, additions)
    if actor.worker is not None:
        _limit_worker(actor, request, names, reads, additions)
    return request.model_copy(update=additions) if additions else request


def _limit_swarm(
    actor: Actor,
    request: Request,
    names: _Names,
    swarm_id: str | None,
    additions: dict[str, object],
) -> None:
    if swarm_id is not None:
        check_swarm(actor, swarm_id)
    elif names.swarm and SWARM_FIELD not in request.model_fields_set:
        additions[SWARM_FIELD] = actor.swarm_id
    else:
        # What names no swarm concerns all of them.
        check_swarm(actor, getattr(request, SWARM_FIELD, None))


def _limit_task(
    actor: Actor, request: Request, names: _Names, reads: bool, additions: dict[str, object]
) -> None:
    if names.poll and getattr(request, POLL_FIELD):
        raise _not_about_one_task(actor, POLL_FIELD)
    for task_id in getattr(request, TASKS_FIELD, None) or ():
        check_task(actor, task_id, TASKS_FIELD)
    if names.packet:
        check_task(actor, packet_task_id(getattr(request, PACKET_FIELD)), PACKET_FIELD)
    elif names.task and getattr(request, TASK_FIELD) is None:
        additions[TASK_FIELD] = actor.task_id
    elif names.task:
        check_task(actor, getattr(request, TASK_FIELD))
    elif isinstance(request, MessageRequest):
        _check_message_member(actor, request)
    elif not reads:
        # Such as a poll, which takes the next task, whichever that is.
        raise _not_about_one_task(actor, "Authorization")


def _not_about_one_task(actor: Actor, field: str) -> Forbidden:
    return Forbidden(
        f"the token of {actor.name} is limited to the task {actor.task_id}, and this request "
        "is not about one task",
        field=field,
        hint="this worker cannot take tasks itself; its launcher does. Report on the task instead",
    )


def _limit_worker(
    actor: Actor, request: Request, names: _Names, reads: bool, additions: dict[str, object]
) -> None:
    if names.worker is not None:
        worker = getattr(request, names.worker)
        if worker is None:
            additions[names.worker] = actor.worker
        else:
            check_worker(actor, worker, names.worker)
    elif isinstance(request, MessageRequest):
        _check_message_member(actor, request)
    elif not (reads or names.packet):  # a report's use case checks the worker of the packet
        check_worker(actor, None, "Authorization")


def _check_message_member(actor: Actor, request: MessageRequest) -> None:
    """What the message names. The use case parses it, and checks what it does not name."""
    message = request.message
    task_id = message.get("task_id")
    _check_message(actor, message.get("worker_id"), task_id if isinstance(task_id, str) else None)


def _check_message(actor: Actor, worker: object, task_id: str | None) -> None:
    check_worker(actor, worker if isinstance(worker, str) else None, "worker_id")
    if task_id is not None:
        check_task(actor, task_id, "task_id")
