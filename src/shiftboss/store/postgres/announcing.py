"""What servers on one database tell each other: which events a commit has brought."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pydantic import BaseModel, ValidationError

CHANNEL = "shiftboss_events"
# PostgreSQL takes fewer than 8,000 bytes; an id has at most 128 characters, a number 16 digits.
SWARMS_PER_PAYLOAD_MAX = 40


class EventRange(NamedTuple):
    """Events of one swarm that were committed together: the ids `first` to `last`."""

    swarm_id: str
    first: int
    last: int


class Announcement(BaseModel):
    node: str
    ranges: list[EventRange]


def announcements(node: str, added: Iterable[tuple[str, int]]) -> Iterator[str]:
    """The payloads for the (swarm id, event id) that one transaction has added, in their order.

    The transaction holds its swarms, so what it adds to one of them has no gap, unless it removes
    the swarm in between: then what was before is gone.
    """
    ranges: dict[str, EventRange] = {}
    for swarm_id, event_id in added:
        known = ranges.get(swarm_id)
        first = known.first if known and known.last + 1 == event_id else event_id
        ranges[swarm_id] = EventRange(swarm_id, first, event_id)
    found = list(ranges.values())
    for start in range(0, len(found), SWARMS_PER_PAYLOAD_MAX):
        part = found[start : start + SWARMS_PER_PAYLOAD_MAX]
        yield Announcement(node=node, ranges=part).model_dump_json()


def parse_announcement(payload: str) -> Announcement | None:
    """None for what somebody else says on the channel."""
    try:
        return Announcement.model_validate_json(payload)
    except ValidationError:
        return None
