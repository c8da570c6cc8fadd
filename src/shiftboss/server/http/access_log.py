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
from typing import Final

from pydantic_core import from_json

from shiftboss.errors import Forbidden, Unauthorized
from shiftboss.rules.access.actors import UNKNOWN, Actor
from shiftboss.system.logs import ACCESS_LOGGER, AUDIT_LOGGER

_access = logging.getLogger(ACCESS_LOGGER)
_audit = logging.getLogger(AUDIT_LOGGER)
# A command that answers by itself has no log, and its output is no place for one.
_audit.addHandler(logging.NullHandler())

REQUEST_ID_HEADER: Final = b"x-request-id"
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
# The statuses of requests that access control refuses.
REFUSALS: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
REFUSAL_CODES: Final = frozenset({Unauthorized.code, Forbidden.code})
# Refusals of one client that are logged one by one in an interval. The others are counted.
REFUSALS_LOGGED_MAX: Final = 5
REFUSAL_SECONDS: Final = 60.0
CLIENTS_MAX: Final = 1_000
# A longer body is not read for its swarm and its task.
_BODY_BYTES_MAX: Final = 65_536
_PATH_CHARACTERS_MAX: Final = 200


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

    @property
    def operation(self) -> str:
        return self.path if self.tool is None else f"{self.path} {self.tool}"

    def is_refused(self, status: int) -> bool:
        """By access control. A tool of MCP is refused in an answer with the status 200."""
        return status in REFUSALS or (self.tool is not None and self.code in REFUSAL_CODES)


# None outside of a request, and on the fast path.
CURRENT_REQUEST: Final[ContextVar[RequestFacts | None]] = ContextVar("request", default=None)


def request_id_of(given: str | None) -> str:
    """The client's own id, if it is well-formed."""
    if given is not None and _REQUEST_ID.fullmatch(given):
        return given
    return secrets.token_hex(8)


class _Refusals:
    """The refusals of one client in the current interval."""

    def __init__(self, now: float) -> None:
        self.began_at = now
        self.count = 0


class AccessLog:
    """`is_on`: every request has a line."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._refusals: dict[str, _Refusals] = {}

    @property
    def is_on(self) -> bool:
        return _access.isEnabledFor(logging.INFO)

    def record(self, facts: RequestFacts, actor: Actor, status: int) -> None:
        is_change = facts.is_audited and not facts.is_refused(status)
        audits = is_change and _audit.isEnabledFor(logging.INFO)
        if not (audits or self.is_on):
            return
        line = {
            **_who(actor),
            "client": facts.client,
            "method": facts.method,
            "operation": facts.operation[:_PATH_CHARACTERS_MAX],
            **_subject(facts.body),
            "status": status,
            **({} if facts.code is None else {"code": facts.code}),
            "duration_ms": round((time.monotonic() - facts.began_at) * 1000),
            "request_id": facts.request_id,
        }
        if self.is_on:
            _access.info("request", extra={"facts": line})
        if audits:
            _audit.info("change", extra={"facts": line})

    def refused(self, facts: RequestFacts, actor: Actor, status: int) -> None:
        """For a request that access control has refused. Floods are counted, not listed."""
        refusals = self._refusals_of(facts.client)
        refusals.count += 1
        if refusals.count <= REFUSALS_LOGGED_MAX:
            _audit.warning("refused", extra={"facts": _refusal(facts, actor, status)})
        elif refusals.count == REFUSALS_LOGGED_MAX + 1:
            _audit.warning(
                "more requests are refused; they are counted",
                extra={"facts": {"client": facts.client}},
            )

    def _refusals_of(self, client: str) -> _Refusals:
        now = self._clock()
        known = self._refusals.get(client)
        if known is not None and now - known.began_at < REFUSAL_SECONDS:
            return known
        if known is not None and known.count > REFUSALS_LOGGED_MAX:
            _audit.warning(
                "%d requests were refused in %d s",
                known.count,
                round(now - known.began_at),
                extra={"facts": {"client": client}},
            )
        if len(self._refusals) >= CLIENTS_MAX:
            self._refusals.clear()
        self._refusals[client] = fresh = _Refusals(now)
        return fresh


def _refusal(facts: RequestFacts, actor: Actor, status: int) -> dict[str, object]:
    return {
        **_who(actor),
        "client": facts.client,
        "method": facts.method,
        "operation": facts.operation[:_PATH_CHARACTERS_MAX],
        "status": status,
        "code": facts.code,
        "request_id": facts.request_id,
    }


def _who(actor: Actor) -> dict[str, str]:
    """A caller whose token is missing or not valid has no role."""
    return {"actor": actor.name} | ({} if actor is UNKNOWN else {"role": actor.role.value})


def _subject(body: bytes) -> dict[str, str]:
    """The swarm and the task that a request is about."""
    if not body or len(body) > _BODY_BYTES_MAX:
        return {}
    try:
        document = from_json(body)
    except ValueError:
        return {}
    if not isinstance(document, dict):
        return {}
    members = {"swarm_id": "swarm", "bead_id": "task", "task_id": "task", "name": "name"}
    return {
        label: document[member][:_PATH_CHARACTERS_MAX]
        for member, label in members.items()
        if isinstance(document.get(member), str)
    }
