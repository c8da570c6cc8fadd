"""Requests are checked before they are sent, with the errors that the server would answer."""

from __future__ import annotations

from typing import TypeVar

from pydantic import ValidationError

from shiftboss.errors import InvalidRequest
from shiftboss.protocol.fields import SWARM_ID_PATTERN, Request, is_swarm_id
from shiftboss.protocol.problems import invalid_request

R = TypeVar("R", bound=Request)


def validated(model: type[R], **members: object) -> R:
    """The request. Raises InvalidRequest, which names the field."""
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
