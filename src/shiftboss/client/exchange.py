"""One exchange with the server: its answers, and its problem documents as errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, TypeGuard, TypeVar

import httpx2
from pydantic import ValidationError

from shiftboss import errors
from shiftboss.errors import Conflict, InvalidRequest, NotFound, ShiftbossError
from shiftboss.protocol.fields import SWARM_ID_PATTERN, Request, is_swarm_id
from shiftboss.protocol.problems import invalid_request

R = TypeVar("R", bound=Request)

_LATER: Final = frozenset({408, 425, 429})
_PROBLEM_TYPE: Final = "urn:shiftboss:"
# What a code means that a later version of the server has.
_KIND_BY_STATUS: Final = {404: NotFound, 409: Conflict, 422: InvalidRequest}
_PROBLEM_MEMBERS: Final = frozenset({"type", "title", "status", "code", "detail", "field", "hint"})


class ServerUnreachable(ShiftbossError):
    """Nothing came back, or nothing that this server would say."""

    code = "server_unreachable"
    status = 503
    title = "The server cannot be reached"


class ForeignAnswer(ServerUnreachable):
    """Somebody else has answered, such as a proxy or another program on the same port."""


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


def answer_of(response: httpx2.Response, *members: str) -> dict[str, Any]:
    """The answer of a response that has been read; `members` tell it from other people's JSON.

    Raises the error that it tells of, or ServerUnreachable when it is none of ours.
    """
    said = _json_object(response)
    if response.is_success and said is not None and said.keys() >= set(members):
        return said
    if not response.is_success and _is_problem(said):
        raise _error_of(response, said)
    kind = ServerUnreachable if _is_busy(response) else ForeignAnswer
    raise kind(f"{response.status_code} came back, and no answer of a Shiftboss server")


def says_later(response: httpx2.Response) -> bool:
    """Whether the same request may be answered another time. What is not ours, whatever its
    status, comes from somebody who stands in for the server."""
    said = _json_object(response)
    if response.is_success:
        return said is None
    return _is_busy(response) or not _is_problem(said)


def _is_busy(response: httpx2.Response) -> bool:
    return response.is_server_error or response.status_code in _LATER


def _is_problem(said: dict[str, Any] | None) -> TypeGuard[dict[str, Any]]:
    return said is not None and (
        str(said.get("code")) in _errors_by_code()
        or str(said.get("type")).startswith(_PROBLEM_TYPE)
    )


def _json_object(response: httpx2.Response) -> dict[str, Any] | None:
    try:
        said = response.json()
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None


def _error_of(response: httpx2.Response, problem: dict[str, Any]) -> ShiftbossError:
    kind = _errors_by_code().get(str(problem.get("code"))) or _KIND_BY_STATUS.get(
        response.status_code, ShiftbossError
    )
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
        if isinstance(kind, type)
        and issubclass(kind, ShiftbossError)
        and kind is not ShiftbossError
    }
