"""The access log and the audit log: who did what, from where, with which result.

Every request has an access line, if the access log is on. What changes something in the name of
others than a worker has an audit line, and so has every request that access control refuses.
"""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Callable
from contextvars import ContextVar
from http import HTTPStatus
from typing import Any, Final

from pydantic_core import from_json

from shiftboss.errors import Forbidden, Unauthorized
from shiftboss.protocol.bus import DEFAULT_SWARM
from shiftboss.rules.access.actors import UNKNOWN, Actor
from shiftboss.rules.tasks.packets import packet_task_id
from shiftboss.system.logs import ACCESS_LOGGER, AUDIT_LOGGER

_access = logging.getLogger(ACCESS_LOGGER)
_audit = logging.getLogger(AUDIT_LOGGER)
# A command that answers by itself has no log, and its output is no place for one.
_audit.addHandler(logging.NullHandler())

REQUEST_ID_HEADER: Final = b"x-request-id"
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
# What access control refuses. The refusal of a tool has a code, but the status of an answer.
REFUSALS: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
_REFUSAL_CODES: Final = frozenset({Unauthorized.code, Forbidden.code})
# Refusals of one actor at one address that are logged one by one in an interval. The others are
# counted.
REFUSALS_LOGGED_MAX: Final = 5
REFUSAL_SECONDS: Final = 60.0
CLIENTS_MAX: Final = 1_000
# The same for all clients together: an attacker may have any number of addresses.
REFUSALS_OF_ALL_LOGGED_MAX: Final = 500
# A longer body is not read for its swarm and its task.
_BODY_BYTES_MAX: Final = 65_536
_PATH_CHARACTERS_MAX: Final = 200
_SWARM_PATH: Final = re.compile(r"/swarm/([A-Za-z0-9._-]{1,128})/")


class RequestFacts:
    """What is known of a request while it is answered. A tool of MCP has one path for all calls."""

    __slots__ = (
        "began_at",
        "body",
        "client",
        "code",
        "is_audited",
        "method",
        "path",
        "request_id",
        "tool",
    )

    def __init__(self, method: str, path: str, client: str, request_id: str) -> None:
        self.method = method
        self.path = path
        self.client = client
        self.request_id = request_id
        self.began_at = time.monotonic()
        self.body: bytes = b""
        self.tool: str | None = None
        self.code: str | None = None
        self.is_audited = False

    def is_refusal(self, status: int) -> bool:
        """Whether access control has refused the request."""
        return status in REFUSALS or self.code in _REFUSAL_CODES

    @property
    def operation(self) -> str:
        return self.path if self.tool is None else f"{self.path} {self.tool}"


# None outside of a request, and on the fast path.
CURRENT_REQUEST: Final[ContextVar[RequestFacts | None]] = ContextVar("request", default=None)


def request_id_of(given: str | None) -> str:
    """The client's own id, if it is well-formed."""
    if given is not None and _REQUEST_ID.fullmatch(given):
        return given
    return secrets.token_hex(8)


class _Refusals:
    """Those of one actor at one address in the current interval."""

    def __init__(self, actor: str, client: str, now: float) -> None:
        self.source = {"actor": actor, "client": client}
        self.began_at = now
        self.count = 0


class AccessLog:
    """`is_on`: every request has a line."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._refusals: dict[tuple[str, str], _Refusals] = {}
        self._refusals_of_all = _Refusals("", "", clock())

    def is_on(self) -> bool:
        return _access.isEnabledFor(logging.INFO)

    def record(self, facts: RequestFacts, actor: Actor, status: int) -> None:
        is_refused = facts.is_refusal(status)
        audits = facts.is_audited and not is_refused and _audit.isEnabledFor(logging.INFO)
        if not (is_refused or audits or self.is_on()):
            return
        line: dict[str, object] = {
            "actor": actor.name,
            # A caller whose token is missing or not valid has no role.
            **({} if actor is UNKNOWN else {"role": actor.role.value}),
            "client": facts.client,
            "method": facts.method,
            "operation": facts.operation[:_PATH_CHARACTERS_MAX],
            # Nobody writes into the log without a token.
            **({} if actor is UNKNOWN else subject_of(facts)),
            "status": status,
            **({} if facts.code is None else {"code": facts.code}),
            "duration_ms": round((time.monotonic() - facts.began_at) * 1000),
            "request_id": facts.request_id,
        }
        if self.is_on():
            _access.info("request", extra={"facts": line})
        if is_refused:
            self._audit_refusal(actor, line)
        elif audits:
            _audit.info("change", extra={"facts": line})

    def _audit_refusal(self, actor: Actor, line: dict[str, object]) -> None:
        """Floods are counted, not listed."""
        refusals = self._refusals_of(actor.name, str(line["client"]))
        refusals.count += 1
        if refusals.count <= REFUSALS_LOGGED_MAX + 1 and not self._has_room():
            return
        if refusals.count <= REFUSALS_LOGGED_MAX:
            _audit.warning("refused", extra={"facts": line})
        elif refusals.count == REFUSALS_LOGGED_MAX + 1:
            message = "more requests are refused; they are counted"
            _audit.warning(message, extra={"facts": refusals.source})

    def _has_room(self) -> bool:
        """Whether one more line about any client may be logged in this interval."""
        now = self._clock()
        if now - self._refusals_of_all.began_at >= REFUSAL_SECONDS:
            self._refusals_of_all = _Refusals("", "", now)
        self._refusals_of_all.count += 1
        if self._refusals_of_all.count == REFUSALS_OF_ALL_LOGGED_MAX + 1:
            _audit.warning("requests of too many clients are refused to list them")
        return self._refusals_of_all.count <= REFUSALS_OF_ALL_LOGGED_MAX

    def _refusals_of(self, actor: str, client: str) -> _Refusals:
        """By name, too: behind a proxy all have one address, and one must not hide the other."""
        now = self._clock()
        known = self._refusals.get((actor, client))
        if known is not None and now - known.began_at < REFUSAL_SECONDS:
            return known
        if known is not None and known.count > REFUSALS_LOGGED_MAX:
            _audit.warning(
                "%d requests were refused in %d s",
                known.count,
                round(now - known.began_at),
                extra={"facts": known.source},
            )
        if len(self._refusals) >= CLIENTS_MAX:
            self._refusals.clear()
        self._refusals[actor, client] = fresh = _Refusals(actor, client, now)
        return fresh


def subject_of(facts: RequestFacts) -> dict[str, object]:
    """The swarm, the task and the attempt that a request is about."""
    document = _arguments(facts.body)
    members = {"swarm_id": "swarm", "bead_id": "task", "task_id": "task", "name": "name"}
    subject: dict[str, object] = {
        label: document[member][:_PATH_CHARACTERS_MAX]
        for member, label in members.items()
        if isinstance(document.get(member), str)
    }
    if type(document.get("epoch")) is int:
        subject["epoch"] = document["epoch"]
    in_path = _SWARM_PATH.match(facts.path)
    if in_path is not None:  # where a task of the body is a step of the packet
        subject["swarm"] = in_path[1]
        packet = document.get("packet_id")
        if type(packet) is int:
            subject["task"] = packet_task_id(packet)
    elif "task" in subject:
        subject.setdefault("swarm", DEFAULT_SWARM)
    return subject


def _arguments(body: bytes) -> dict[str, Any]:
    """The members of a request; those of a call of MCP are within."""
    if not body or len(body) > _BODY_BYTES_MAX:
        return {}
    try:
        document = from_json(body)
    except ValueError:
        return {}
    for member in ("params", "arguments"):
        if isinstance(document, dict) and isinstance(document.get(member), dict):
            document = document[member]
    return document if isinstance(document, dict) else {}
