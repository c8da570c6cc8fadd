"""Calls of the bus: one operation each."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

from shiftboss.cli.common.client import Client, RequestRefused, connected, parsed
from shiftboss.cli.common.tokens import find_operator_token, read_operator_token

TASKS_PER_PAGE_MAX = 500


class OperatorPlaces(NamedTuple):
    """Where the server is, and where the tokens for it are."""

    server: str
    token_file: Path | None
    operator_token_file: Path | None


def call(client: Client, operation: str, swarm_id: str, /, **members: object) -> bytes:
    """A member may have the name of anything here."""
    return client.post(f"/bus/{operation}", body_of(swarm_id, members))


def body_of(swarm_id: str, members: Mapping[str, object]) -> dict[str, object]:
    """What was not said is left to the server."""
    said = {name: value for name, value in members.items() if value is not None}
    return {"swarm_id": swarm_id, **said}


def ask(
    server: str,
    token_file: Path | None,
    operation: str,
    swarm_id: str,
    /,
    *,
    as_json: bool,
    **members: object,
) -> bytes:
    """The answer of a command that makes one call."""
    with connected(server, token_file, as_json=as_json) as client:
        return call(client, operation, swarm_id, **members)


def ask_as_operator(
    places: OperatorPlaces,
    operation: str,
    swarm_id: str,
    members: Mapping[str, object],
    *,
    as_json: bool,
) -> bytes:
    """The same for what only the operator may do."""
    server, token_file, operator_token_file = places
    token = read_operator_token(operator_token_file)
    with connected(server, token_file, as_json=as_json, operator_token=token) as client:
        return client.post(f"/operator/{operation}", body_of(swarm_id, members))


def ask_or_operate(
    places: OperatorPlaces,
    operation: str,
    as_operator: str,
    swarm_id: str,
    members: Mapping[str, object],
    *,
    as_json: bool,
) -> bytes:
    """As anybody; where the server leaves that to the operator, as the operator, if we are. So the
    operator's token goes to no server that does not ask for it."""
    with connected(places.server, places.token_file, as_json=as_json) as client:
        try:
            return call(client, operation, swarm_id, **members)
        except RequestRefused as refusal:
            token = find_operator_token(places.operator_token_file)
            if refusal.http_status != HTTPStatus.FORBIDDEN or token is None:
                raise
    return ask_as_operator(places, as_operator, swarm_id, members, as_json=as_json)


def task_pages(client: Client, swarm_id: str, limit: int | None) -> list[bytes]:
    """The server's pages up to so many tasks, or all."""
    pages: list[bytes] = []
    left, after = limit, ""
    while True:
        wanted = TASKS_PER_PAGE_MAX if left is None else min(left, TASKS_PER_PAGE_MAX)
        pages.append(call(client, "list_tasks", swarm_id, after=after, limit=wanted))
        next_after = parsed(pages[-1], "next_after")["next_after"]
        left = None if left is None else left - wanted
        if next_after is None or left == 0:
            return pages
        after = next_after


def joined_tasks(pages: list[bytes]) -> dict[str, Any]:
    """Pages as one answer of the same shape."""
    listings = [parsed(page, "tasks") for page in pages]
    return {
        "tasks": [task for listing in listings for task in listing["tasks"]],
        "next_after": listings[-1]["next_after"],
    }
