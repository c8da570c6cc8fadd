"""An operation: a request, an answer, and the use case between them, for HTTP and MCP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from operator import attrgetter
from typing import Any, NamedTuple

from shiftboss.protocol.fields import Answer, Request
from shiftboss.rules.access.roles import Permission


class Operation(NamedTuple):
    """`call(service, request, idempotency_key)`, where `service` gets the service of a coordinator.

    `summary` is the description of the MCP tool, too. `permission` is what a caller needs.
    `reads`: it changes nothing. `waits`: its answer may take long. `is_tool`: MCP has it, too.
    """

    request: type[Request]
    answer: type[Answer]
    call: Callable[..., Awaitable[Answer]]
    summary: str
    permission: Permission
    reads: bool = False
    waits: bool = False
    service: Callable[[Any], Any] = attrgetter("bus")
    is_tool: bool = True


# Of the others, only these are written to the audit log: contracts choose commands, verdicts count,
# and who logs in can do more from then on.
_AUDITED = frozenset({"swarm_spawn_subtask", "report_verdict", "create_login"})


def is_audited(name: str, permission: Permission, *, reads: bool) -> bool:
    """Whether the audit log has a line for it. What workers report, and which tasks are added, is
    in the events, with the same names."""
    if reads:
        return False
    return permission in (Permission.STEER, Permission.OPERATE) or name in _AUDITED
