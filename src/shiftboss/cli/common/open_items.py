"""Finding swarms by what is open in them, for commands that are given no swarm."""

from __future__ import annotations

import shlex
import sys
from typing import Any

from shiftboss.cli.common.client import RequestRefused, parse_answer, swarm_path
from shiftboss.cli.common.command import ServerSession
from shiftboss.cli.common.options import DEFAULT_SWARM
from shiftboss.cli.common.pages import SWARMS_PER_PAGE_MAX, join_pages, swarm_pages
from shiftboss.errors import ShiftbossError

Items = dict[str, list[dict[str, Any]]]


class AmbiguousSwarm(ShiftbossError):
    code = "ambiguous_swarm"
    title = "Several swarms could be meant"

    def __init__(self, what: str, swarms: list[str]) -> None:
        command = shlex.join(["shiftboss", *sys.argv[1:]])
        choices = [f"`{command} --swarm {swarm}`" for swarm in swarms]
        super().__init__(
            f"{len(swarms)} swarms have {what}: {', '.join(swarms)}",
            field="swarm_id",
            hint=f"say which: {' or '.join(choices)}",
        )


def newest_swarms(session: ServerSession) -> tuple[list[dict[str, Any]], bool]:
    """The newest swarms, and whether there are older ones. The default swarm is always among them:
    it is the oldest, and may still be used."""
    listing = join_pages(swarm_pages(session.client, SWARMS_PER_PAGE_MAX), "swarms")
    swarms: list[dict[str, Any]] = listing["swarms"]
    is_cut = listing["next_before"] is not None
    if is_cut and all(swarm["swarm_id"] != DEFAULT_SWARM for swarm in swarms):
        swarms += _default_swarm(session)
    return swarms, is_cut


def _default_swarm(session: ServerSession) -> list[dict[str, Any]]:
    """Its status has the members of a summary, and more. Nothing if it was never used."""
    try:
        document = session.client.get(swarm_path(DEFAULT_SWARM, "status"))
    except RequestRefused:
        return []
    return [parse_answer(document, "workers")]


def swarms_with(session: ServerSession, count: str) -> list[str]:
    """The newest swarms whose `count` (a member of `bus`) is not zero; the default swarm if none
    is."""
    newest, _ = newest_swarms(session)
    swarms = [swarm["swarm_id"] for swarm in newest if swarm["bus"][count]]
    return swarms or [DEFAULT_SWARM]


def only_swarm_with(session: ServerSession, count: str, what: str, swarm: str | None) -> str:
    """The given swarm, or the only one whose `count` is not zero. Raises AmbiguousSwarm."""
    swarms = [swarm] if swarm is not None else swarms_with(session, count)
    if len(swarms) > 1:
        raise AmbiguousSwarm(what, swarms)
    return swarms[0]


def open_items(session: ServerSession, operation: str, items: str, swarms: list[str]) -> Items:
    """The open items of each swarm, by swarm."""
    answers = {swarm: session.call(operation, swarm, only_open=True) for swarm in swarms}
    return {swarm: parse_answer(answer, items)[items] for swarm, answer in answers.items()}


def swarm_of_question(session: ServerSession, number: int, swarm: str | None) -> str:
    return swarm or _swarm_of(session, "list_questions", "questions", "question_id", number)


def swarm_of_scope_request(session: ServerSession, number: int, swarm: str | None) -> str:
    items = "requests"
    return swarm or _swarm_of(
        session, "list_scope_requests", items, "request_id", number, "scope_requests"
    )


def _swarm_of(
    session: ServerSession,
    operation: str,
    items: str,
    key: str,
    number: int,
    count: str | None = None,
) -> str:
    """The only swarm with such an open item. The default swarm if there is none: the operation says
    what is wrong."""
    listed = open_items(session, operation, items, swarms_with(session, count or items))
    found = [swarm for swarm, rows in listed.items() if any(row[key] == number for row in rows)]
    if len(found) > 1:
        raise AmbiguousSwarm(f"an open number {number}", found)
    return found[0] if found else DEFAULT_SWARM
