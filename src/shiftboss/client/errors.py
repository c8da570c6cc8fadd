"""Errors that a client raises: the server's problem documents, and a server that gave no answer.

ServerUnreachable       no usable reply; another attempt may succeed, and the client retries these
├── UnrecognizedReply   something replied, but not a Shiftboss server
├── TlsFailed           a certificate is not accepted, or one side does not speak TLS
├── TokenRefused        the server does not accept the token, but may accept the next one
└── ServerBusy          the server asks to try again later

Imports only the standard library and small modules: the commands use it, and start-up counts.
"""

from __future__ import annotations

import json
import ssl
from functools import cache
from typing import Any, Final

from shiftboss import errors
from shiftboss.defaults import CA_VARIABLE
from shiftboss.errors import (
    Conflict,
    InvalidRequest,
    NotFound,
    OutcomeUnknown,
    ShiftbossError,
    TooManyRequests,
)
from shiftboss.system.tls import TlsProblem, authorities

# Request timeout, too early, too many requests.
_RETRYABLE_STATUSES: Final = frozenset({408, 425, 429})
RETRY_AFTER_SECONDS_MAX: Final = 60.0
_PROBLEM_TYPE: Final = "urn:shiftboss:"
_PROBLEM_MEMBERS: Final = frozenset({"type", "title", "status", "code", "detail", "field", "hint"})
# For a code that only a newer server knows.
_ERROR_BY_STATUS: Final = {404: NotFound, 409: Conflict, 422: InvalidRequest}


class ServerUnreachable(ShiftbossError):
    """`retry_after_seconds` is how long the server asks to wait before the next attempt.

    `is_unchanged`: the request has certainly had no effect. `is_of_this_server`: another server of
    the same deployment may well answer.
    """

    retry_after_seconds = 0.0
    is_unchanged = False
    is_of_this_server = True
    code = "server_unreachable"
    status = 503
    title = "The server cannot be reached"


class UnrecognizedReply(ServerUnreachable):
    """Something else replied, such as a proxy or another program on the same port."""


class TlsFailed(ServerUnreachable):
    """`failure` says why: untrusted, wrong_host, expired, not_yet_valid, no_tls, tls_expected or
    handshake. A retry helps once the operator has replaced the certificate."""

    code = "tls_failed"
    title = "There is no secure connection"

    def __init__(self, problem: TlsProblem) -> None:
        super().__init__(problem.detail, hint=problem.hint)
        self.failure = problem.failure


class TokenRefused(ServerUnreachable):
    """Tokens are rotated: the file of this client, or the server, may have another one soon."""

    is_unchanged = True


class ServerBusy(ServerUnreachable):
    """`problem` is the error that the server sent, such as StoreUnavailable."""

    def __init__(self, problem: ShiftbossError) -> None:
        super().__init__(problem.detail, hint=problem.hint)
        self.problem = problem
        # A 503 of ours says so if the outcome is unknown; what failed with 500 may have changed
        # something. The limit on requests counts the client, which should not evade it.
        self.is_unchanged = problem.status == 503 and not isinstance(problem, OutcomeUnknown)
        self.is_of_this_server = not isinstance(problem, TooManyRequests)


def bad_authorities(ca: str | None, error: OSError) -> InvalidRequest:
    """For a file of authorities that cannot be used."""
    file, reason = authorities(ca), "it holds no certificates in PEM format"
    if not isinstance(error, ssl.SSLError):
        reason = error.strerror or str(error)
    return InvalidRequest(
        f"ca: cannot use {file}: {reason}",
        field="ca",
        hint=f"--ca and {CA_VARIABLE} name a PEM file with the authority of the server's "
        "certificate",
    )


def retry_after(value: str | None) -> float:
    """The seconds of a Retry-After header. Dates are not used by servers that are busy, and what
    is wrong or very long does not keep a client from trying."""
    if value is None or not (value.isascii() and value.isdecimal() and len(value) <= 9):
        return 0.0
    return min(float(value), RETRY_AFTER_SECONDS_MAX)


def is_retryable_status(status: int) -> bool:
    return status >= 500 or status in _RETRYABLE_STATUSES


def parse_json_object(body: bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def is_problem(document: dict[str, Any]) -> bool:
    """Whether this is a problem document of a Shiftboss server, and not some other JSON."""
    is_known = str(document.get("code")) in _errors_by_code()
    return is_known or str(document.get("type")).startswith(_PROBLEM_TYPE)


def error_from_problem(status: int, problem: dict[str, Any]) -> ShiftbossError:
    error_class = _errors_by_code().get(str(problem.get("code"))) or _ERROR_BY_STATUS.get(
        status, ShiftbossError
    )
    # Some classes compose their detail themselves; here the server has already done so.
    error = error_class.__new__(error_class)
    ShiftbossError.__init__(
        error,
        str(problem.get("detail") or f"the server answered {status}"),
        field=problem.get("field"),
        hint=problem.get("hint"),
        facts={name: fact for name, fact in problem.items() if name not in _PROBLEM_MEMBERS},
    )
    return error


@cache
def _errors_by_code() -> dict[str, type[ShiftbossError]]:
    return {
        error_class.code: error_class
        for error_class in vars(errors).values()
        if isinstance(error_class, type)
        and issubclass(error_class, ShiftbossError)
        and error_class is not ShiftbossError
    }
