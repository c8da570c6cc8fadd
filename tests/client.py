"""A small HTTP client for tests."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx2

# Shorter than the time limit of a test, longer than any request takes.
ANSWER_SECONDS = 15.0
# The servers of tests speak plain HTTP. Loading the certificates of the system for each client
# would take twenty times as long as a request.
NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class SseEvent(NamedTuple):
    """One event of a stream. `data` is parsed."""

    event_id: int
    kind: str
    data: dict[str, Any]


class EventReader:
    """Reads events from an open stream, one or several at a time."""

    def __init__(self, response: httpx2.Response) -> None:
        self._source = iter(httpx2.EventSource(response))

    def next(self) -> SseEvent:
        return self.take(1)[0]

    def take(self, count: int) -> list[SseEvent]:
        """Raises httpx2.ReadTimeout if the next event does not arrive in time."""
        taken: list[SseEvent] = []
        while len(taken) < count:
            event = next(self._source, None)
            assert event is not None, f"the stream ended after {len(taken)} of {count} events"
            if event.data:
                taken.append(_parsed(event))
        return taken

    def rest(self) -> list[SseEvent]:
        """All events until the stream ends."""
        return [_parsed(event) for event in self._source if event.data]


def _parsed(event: httpx2.ServerSentEvent) -> SseEvent:
    return SseEvent(int(event.id or 0), event.event, json.loads(event.data))


class Client:
    """`Client(url)`; answers are plain httpx2 responses, whatever their status."""

    def __init__(self, url: str, token: str | None = None) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = httpx2.Client(
            base_url=url,
            headers=headers,
            timeout=ANSWER_SECONDS,
            trust_env=False,
            verify=NO_CERTIFICATES,
        )

    def get(self, path: str, **parameters: str | int) -> httpx2.Response:
        return self._http.get(path, params=parameters)

    def post(self, path: str, body: object, key: str | None = None) -> httpx2.Response:
        """`body` is sent as JSON, or unchanged if it is bytes. `key` is the Idempotency-Key."""
        headers = {"Content-Type": "application/json"}
        if key is not None:
            headers["Idempotency-Key"] = key
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self._http.post(path, content=content, headers=headers)

    def create_swarm(self, **members: object) -> str:
        """Create a swarm and return its id."""
        answer = self.post("/swarm/create", members)
        assert answer.status_code == 201, answer.text
        swarm_id: str = answer.json()["swarm_id"]
        return swarm_id

    def status(self, swarm_id: str) -> dict[str, Any]:
        answer = self.get(f"/swarm/{swarm_id}/status")
        assert answer.status_code == 200, answer.text
        status: dict[str, Any] = answer.json()
        return status

    @contextmanager
    def events(
        self, swarm_id: str, since: int = 0, last_event_id: int | None = None, follow: bool = True
    ) -> Iterator[EventReader]:
        """The open stream of a swarm."""
        headers = {} if last_event_id is None else {"Last-Event-ID": str(last_event_id)}
        parameters: dict[str, str | int] = {"since_event_id": since}
        if not follow:
            parameters["follow"] = "false"
        with self._http.stream(
            "GET", f"/swarm/{swarm_id}/events", params=parameters, headers=headers
        ) as response:
            assert response.status_code == 200, response.read()
            yield EventReader(response)

    def stored_events(self, swarm_id: str, since: int = 0) -> list[SseEvent]:
        with self.events(swarm_id, since, follow=False) as reader:
            return reader.rest()

    def close(self) -> None:
        self._http.close()
