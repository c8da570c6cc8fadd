"""Reading the server's event stream, across lost connections if asked to."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
from http.client import HTTPResponse
from typing import Any, Final, NamedTuple

from shiftboss.cli.common.client import (
    Client,
    NoServer,
    NotShiftboss,
    RequestRefused,
    TokenNotAccepted,
    swarm_path,
)
from shiftboss.defaults import STREAM_SILENCE_SECONDS

PAUSE_SECONDS_FIRST: Final = 0.1
PAUSE_SECONDS_MAX: Final = 2.0
# A comment has no name.
_FIELD_NAME: Final = re.compile("[a-z_-]*")


class StreamEvent(NamedTuple):
    """`at` is in UTC, `actor` is who caused it. A server of an earlier version sends neither."""

    id: int
    event: str
    data: dict[str, Any]
    at: str | None = None
    actor: str | None = None


def stored_events(client: Client, swarm_id: str, since: int) -> Iterator[StreamEvent]:
    """The events up to now."""
    yield from _read(client, _open(client, swarm_id, since, follow=False))


def follow_events(
    client: Client, swarm_id: str, since: int, on_lost: Callable[[str], None]
) -> Iterator[StreamEvent]:
    """The events up to now and then live ones, without end.

    After a lost connection it continues after the last complete event, at another address if need
    be, so that no event is missed and none comes twice. `on_lost` gets what it waits for then.
    Raises NoServer only if the first connection fails.
    """
    stream = _open(client, swarm_id, since, follow=True)
    while True:
        try:
            for event in _read(client, stream):
                since = event.id
                yield event
        except NoServer:
            client.move_on()
        on_lost("connection lost; connecting again")
        stream = _reopen(client, swarm_id, since, on_lost)


def _open(client: Client, swarm_id: str, since: int, *, follow: bool) -> HTTPResponse:
    query = {"since_event_id": since, "follow": "true" if follow else "false"}
    return client.open(swarm_path(swarm_id, "events"), query, STREAM_SILENCE_SECONDS)


def _reopen(
    client: Client, swarm_id: str, since: int, on_lost: Callable[[str], None]
) -> HTTPResponse:
    pause_seconds = PAUSE_SECONDS_FIRST
    is_refusal_told = False
    while True:
        time.sleep(pause_seconds)
        try:
            return _open(client, swarm_id, since, follow=True)
        except NoServer:
            pass
        except TokenNotAccepted as error:
            # It was accepted before: it is being replaced.
            if not client.renew_token() and not is_refusal_told:
                on_lost(f"{error.detail}; waiting for another token; {error.hint}")
                is_refusal_told = True
        except (RequestRefused, NotShiftboss) as error:
            # A proxy answers for itself while the server behind it starts.
            if error.http_status < 500:
                raise
        pause_seconds = min(pause_seconds * 2, PAUSE_SECONDS_MAX)


def _read(client: Client, response: HTTPResponse) -> Iterator[StreamEvent]:
    for fields in read_frames(client, response):
        data = json.loads(fields["data"])
        at, actor = fields.get("at"), fields.get("actor") or None
        yield StreamEvent(int(fields["id"]), fields["event"], data, at, actor)


def read_frames(client: Client, response: HTTPResponse) -> Iterator[dict[str, str]]:
    """The fields of each frame that has data. Raises NoServer if the connection is lost."""
    with response:
        lines = _lines(client, response)
        while (fields := _frame(lines)) is not None:
            if "data" in fields:
                yield fields


def _lines(client: Client, response: HTTPResponse) -> Iterator[bytes]:
    while True:
        with client.connection_errors():
            line = response.readline()
        if not line:
            return
        yield line


def _frame(lines: Iterable[bytes]) -> dict[str, str] | None:
    """The fields up to the next empty line; None at the end of the stream, where an incomplete
    frame is dropped."""
    fields: dict[str, str] = {}
    for line in lines:
        text = line.decode(errors="replace").rstrip("\r\n")
        if not text:
            return fields
        name, _, value = text.partition(":")
        if not _FIELD_NAME.fullmatch(name):
            raise NotShiftboss("the answer is not the event stream of a Shiftboss server")
        fields[name] = value.removeprefix(" ")
    return None
