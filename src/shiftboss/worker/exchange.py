"""One exchange with the server: its answers, and its problem documents as errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, TypeVar

import httpx2
from pydantic import ValidationError

from shiftboss import errors
from shiftboss.errors import InvalidRequest, ShiftbossError
from shiftboss.protocol.fields import SWARM_ID_PATTERN, Request, is_swarm_id
from shiftboss.protocol.problem import invalid_request

R = TypeVar("R", bound=Request)

_LATER: Final = frozenset({408, 425, 429})
_PROBLEM_MEMBERS: Final = frozenset({"type", "title", "status", "code", "detail", "field", "hint"})


class ServerUnreachable(ShiftbossError):
    """Nothing came back, or nothing that this server would say."""

    code = "server_unreachable"
    status = 503
    title = "The server cannot be reached"


def checked(model: type[R], **members: object) -> R:
    """The request, or the error that the server would answer."""
    try:
        return model.model_validate(members)
    except ValidationError as error:
        raise invalid_request(error) from None


def swarm_path(swarm_id: str, operation: str) -> str:
    if not is_swarm_id(swarm_id):
        raise InvalidRequest(
            f"swarm_id: {swarm_id!r} does not match {SWARM_ID_PATTERN}", field="swarm_id"
        )
    return f"/swarm/{swarm_id}/{operation}"


@contextmanager
def reaching(address: object) -> Iterator[None]:
    """Errors of the connection as ours."""
    try:
        yield
    except httpx2.RequestError as error:
        raise ServerUnreachable(
            f"no answer from {address}: {str(error) or type(error).__name__}",
            hint="is the server running? `shiftboss serve` starts one; SHIFTBOSS_URL names it",
        ) from error


def answer_of(response: httpx2.Response) -> dict[str, Any]:
    """The answer of a response that has been read. Raises the error that it tells of."""
    said = _json_object(response)
    if response.is_success and said is not None:
        return said
    raise _error_of(response, said or {})


def says_later(response: httpx2.Response) -> bool:
    """Whether the same request may be answered another time.

    A success or a redirect without an answer of ours comes from somebody who stands in for the
    server, such as a proxy.
    """
    if response.is_client_error:
        return response.status_code in _LATER
    return not response.is_success or _json_object(response) is None


def _json_object(response: httpx2.Response) -> dict[str, Any] | None:
    try:
        said = response.json()
    except ValueError:
        return None
    return said if isinstance(said, dict) else None


def _error_of(response: httpx2.Response, problem: dict[str, Any]) -> ShiftbossError:
    kind = _errors_by_code().get(str(problem.get("code")), ShiftbossError)
    # Some kinds word their detail themselves; here the server has done it.
    error = kind.__new__(kind)
    ShiftbossError.__init__(
        error,
        str(problem.get("detail") or f"the server answered {response.status_code}"),
        field=problem.get("field"),
        hint=problem.get("hint"),
        facts={name: fact for name, fact in problem.items() if name not in _PROBLEM_MEMBERS},
    )
    return error


@cache
def _errors_by_code() -> dict[str, type[ShiftbossError]]:
    return {
        kind.code: kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, ShiftbossError)
    }
