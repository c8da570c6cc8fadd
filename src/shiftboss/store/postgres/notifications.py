"""NOTIFY between the servers on one schema: the channels, and the events that a commit announces.

A channel belongs to a whole database, a store to one schema of it. The name of the schema is part
of the name of the channel, so that stores in two schemas do not wake each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Final, NamedTuple

import psycopg
from psycopg import sql
from pydantic import BaseModel, ValidationError

_EVENTS: Final = "shiftboss_events"
_DUTIES: Final = "shiftboss_duties"
# PostgreSQL cuts longer identifiers, and refuses longer channels.
IDENTIFIER_BYTES_MAX: Final = 63
# PostgreSQL takes fewer than 8,000 bytes; an id has at most 128 characters, a number 16 digits.
SWARMS_PER_PAYLOAD_MAX: Final = 40


class Channels(NamedTuple):
    """`events` announces commits; `duties` calls the server that has the duties."""

    events: str
    duties: str

    @classmethod
    def of_schema(cls, schema: str) -> Channels:
        return cls(_channel(_EVENTS, schema), _channel(_DUTIES, schema))


def _channel(prefix: str, schema: str) -> str:
    name = f"{prefix}:{schema}"
    if len(name.encode()) > IDENTIFIER_BYTES_MAX:
        name = f"{prefix}:{sha256(schema.encode()).hexdigest()[:32]}"
    return name


async def listen(connection: psycopg.AsyncConnection, channel: str) -> None:
    await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))


class EventRange(NamedTuple):
    """Events of one swarm that were committed together: the ids `first` to `last`."""

    swarm_id: str
    first: int
    last: int


class Announcement(BaseModel):
    """The payload of a notification: the events that a server, `node`, has committed, and whether
    it has changed the settings of the deployment."""

    node: str
    ranges: list[EventRange]
    settings: bool = False


def payload_start(node: str) -> bytes:
    """What every payload of the server begins with: `node` is the first member."""
    return f'{{"node":"{node}",'.encode()


def settings_payload(node: str) -> str:
    return Announcement(node=node, ranges=[], settings=True).model_dump_json()


def event_payloads(node: str, added: Iterable[tuple[str, int]]) -> Iterator[str]:
    """The payloads for the (swarm id, event id) that one transaction has added, in their order.

    The transaction holds its swarms, so what it adds to one of them has no gap, unless it removes
    the swarm in between: then what was before is gone.
    """
    ranges: dict[str, EventRange] = {}
    for swarm_id, event_id in added:
        known = ranges.get(swarm_id)
        first = known.first if known and known.last + 1 == event_id else event_id
        ranges[swarm_id] = EventRange(swarm_id, first, event_id)
    all_ranges = list(ranges.values())
    for start in range(0, len(all_ranges), SWARMS_PER_PAYLOAD_MAX):
        page = all_ranges[start : start + SWARMS_PER_PAYLOAD_MAX]
        yield Announcement(node=node, ranges=page).model_dump_json()


def parse_payload(payload: str | bytes) -> Announcement | None:
    """None for a payload that does not come from a server like this."""
    try:
        return Announcement.model_validate_json(payload)
    except ValidationError:
        return None
