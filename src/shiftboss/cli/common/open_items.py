"""Finding swarms by what is open in them, for commands that are given no swarm."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from shiftboss.cli.common.ambiguous_swarm import AmbiguousSwarm
from shiftboss.cli.common.client import RequestRefused, parse_answer, swarm_path
from shiftboss.cli.common.command import ServerSession
from shiftboss.cli.common.options import DEFAULT_SWARM
from shiftboss.cli.common.output import print_line
from shiftboss.cli.common.pages import SWARMS_PER_PAGE_MAX, join_pages, swarm_pages
from shiftboss.errors import NotFound

T = TypeVar("T")
Items = dict[str, list[dict[str, Any]]]


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
    """The newest swarms whose `count` (a member of `bus`) is not zero. If none is: the only swarm
    that there is, which may be the one that the token is limited to; else the default swarm."""
    newest, _ = newest_swarms(session)
    only = newest[0]["swarm_id"] if len(newest) == 1 else DEFAULT_SWARM
    return _with_any(newest, count) or [only]


def _with_any(swarms: list[dict[str, Any]], count: str) -> list[str]:
    return [swarm["swarm_id"] for swarm in swarms if swarm["bus"][count]]


def only_swarm_with(session: ServerSession, count: str, what: str, swarm: str | None) -> str:
    """The given swarm, or the only one whose `count` is not zero. Raises AmbiguousSwarm."""
    return swarm or _only(_with_any(newest_swarms(session)[0], count), what)


def only_swarm(session: ServerSession, swarm_id: str | None) -> str:
    """The given swarm, or the only one that there is, for a command whose argument is a swarm.
    Raises AmbiguousSwarm or NotFound."""
    if swarm_id is not None:
        return swarm_id
    swarms = {str(each["swarm_id"]): str(each["status"]) for each in newest_swarms(session)[0]}
    if len(swarms) > 1:
        raise AmbiguousSwarm("something to show", swarms, option=None)
    if not swarms:
        raise NotFound("there is no swarm yet", hint="create one: shiftboss swarm create")
    return next(iter(swarms))


def unfinished_swarm(session: ServerSession) -> str:
    """The only swarm with unfinished work, for a command whose argument is a swarm. Raises
    AmbiguousSwarm or NotFound."""
    newest, _ = newest_swarms(session)
    unfinished = {
        str(swarm["swarm_id"]): str(swarm["status"])
        for swarm in newest
        if swarm["status"] in ("running", "waiting")
        or any(swarm["bus"][status] for status in ("open", "queued", "active"))
    }
    if len(unfinished) > 1:
        raise AmbiguousSwarm("unfinished work", unfinished, option=None)
    if not unfinished:
        raise NotFound("no swarm has unfinished work", hint="see them all: shiftboss swarm list")
    return next(iter(unfinished))


def list_by_swarm(
    session: ServerSession, operation: str, items: str, count: str, *, only_open: bool
) -> Items:
    """The items of each swarm that has any. `count` is the number of open ones in `bus`."""
    if only_open:
        swarms = swarms_with(session, count)
    else:
        swarms = [swarm["swarm_id"] for swarm in newest_swarms(session)[0]]
    answers = {swarm: session.call(operation, swarm, only_open=only_open) for swarm in swarms}
    listed = {swarm: parse_answer(answer, items)[items] for swarm, answer in answers.items()}
    return {swarm: rows for swarm, rows in listed.items() if rows}


def with_swarm_ids(listed: Items) -> list[dict[str, Any]]:
    return [row | {"swarm_id": swarm} for swarm, rows in listed.items() for row in rows]


def show_by_swarm(listings: Mapping[str, T], show: Callable[[T], None]) -> None:
    """Each under the name of its swarm. The default swarm alone needs no name."""
    for swarm, listing in listings.items():
        if len(listings) > 1 or swarm != DEFAULT_SWARM:
            print_line(f"swarm {swarm}:")
        show(listing)


def swarm_of_question(session: ServerSession, number: int, swarm: str | None) -> str:
    if swarm is not None:
        return swarm
    listed = list_by_swarm(session, "list_questions", "questions", "questions", only_open=True)
    return _swarm_with(listed, "question_id", number, f"an open number {number}")


def swarm_of_scope_request(session: ServerSession, number: int, swarm: str | None) -> str:
    if swarm is not None:
        return swarm
    listed = list_by_swarm(
        session, "list_scope_requests", "requests", "scope_requests", only_open=True
    )
    return _swarm_with(listed, "request_id", number, f"an open number {number}")


def swarm_of_worker(session: ServerSession, name: str, swarm: str | None) -> str:
    """Of a worker on the bus."""
    if swarm is not None:
        return swarm
    swarms = [row["swarm_id"] for row in newest_swarms(session)[0]]
    answers = {swarm: session.call("get_status", swarm) for swarm in swarms}
    return _swarm_with(_workers(answers), "name", name, f"a worker {name}")


def swarm_of_packet(session: ServerSession, number: int, swarm: str | None) -> str:
    if swarm is not None:
        return swarm
    swarms = [row["swarm_id"] for row in newest_swarms(session)[0] if row["workers_registered"]]
    answers = {swarm: session.client.get(swarm_path(swarm, "status")) for swarm in swarms}
    return _swarm_with(_workers(answers), "packet_id", number, f"a packet {number}")


def _workers(answers: Mapping[str, bytes]) -> Items:
    return {swarm: parse_answer(answer, "workers")["workers"] for swarm, answer in answers.items()}


def _swarm_with(listed: Items, key: str, value: object, what: str) -> str:
    swarms = [swarm for swarm, rows in listed.items() if any(row[key] == value for row in rows)]
    return _only(swarms, what)


def _only(swarms: Sequence[str], what: str) -> str:
    """The only one. The default swarm if there is none: the operation says what is wrong."""
    if len(swarms) > 1:
        raise AmbiguousSwarm(what, dict.fromkeys(swarms, ""))
    return swarms[0] if swarms else DEFAULT_SWARM
