"""One round of a deliverer: what it does while it holds the outbox."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx2

from shiftboss.errors import Conflict, InvalidRequest, ShiftbossError, UnknownPacket
from shiftboss.worker.deadlines import Deadline
from shiftboss.worker.exchange import (
    ForeignAnswer,
    ServerUnreachable,
    answer_of,
    reaching,
    says_later,
    swarm_path,
)
from shiftboss.worker.outbox import Entry, Outbox
from shiftboss.worker.server_address import TIMEOUT

# What the server says of the report itself: it would say the same tomorrow. Anything else, such as
# a wrong token or a swarm that is not there yet, can be put right while the reports wait.
_FOR_GOOD: Final = (Conflict, InvalidRequest, UnknownPacket)


class Round:
    """`complete` are swarms that an answer has called complete; `held_back` says, by swarm, why
    its reports wait although the server answers."""

    def __init__(self, outbox: Outbox, client: httpx2.Client, deadline: Deadline | None) -> None:
        self.complete: set[str] = set()
        self.held_back: dict[str, ShiftbossError] = {}
        self._outbox = outbox
        self._client = client
        self._deadline = deadline

    def all(self) -> None:
        for file, entry in self._waiting():
            self._deliver_unattended(file, entry)

    def up_to(self, own: Entry) -> dict[str, Any]:
        for file, entry in self._waiting():
            if entry.key == own.key:
                return self._deliver_own(file, own)
            self._deliver_unattended(file, entry)
        # Another process has delivered it: the same key gets the same answer.
        return self._post(own)

    def _waiting(self) -> Iterator[tuple[Path, Entry]]:
        for file in self._outbox.files():
            entry = self._outbox.read(file)
            if entry is not None:
                yield file, entry

    def _deliver_own(self, file: Path, own: Entry) -> dict[str, Any]:
        try:
            # It does not overtake its elders: what holds them back is what it would be told.
            if own.swarm_id in self.held_back:
                raise self.held_back[own.swarm_id]
            answer = self._post(own)
        except ServerUnreachable:
            raise
        except ShiftbossError:
            file.unlink(missing_ok=True)
            raise
        file.unlink(missing_ok=True)
        return answer

    def _deliver_unattended(self, file: Path, entry: Entry) -> None:
        if entry.swarm_id in self.held_back:
            return
        try:
            self._post(entry)
        except ServerUnreachable:
            raise
        except _FOR_GOOD as error:
            self._outbox.reject(file, error.detail)
        except ShiftbossError as error:
            self.held_back[entry.swarm_id] = error
        else:
            file.unlink(missing_ok=True)

    def _post(self, entry: Entry) -> dict[str, Any]:
        with reaching(self._client.base_url):
            response = self._client.post(
                swarm_path(entry.swarm_id, entry.operation),
                json=entry.body,
                headers={"Idempotency-Key": entry.key},
                timeout=self._deadline.timeout() if self._deadline else TIMEOUT,
            )
        answer = _answer_to(entry, response)
        if answer.get("swarm_complete") is True:
            self.complete.add(entry.swarm_id)
        return answer


def _answer_to(entry: Entry, response: httpx2.Response) -> dict[str, Any]:
    said_yes = "registered" if entry.operation == "register" else "acknowledged"
    try:
        answer = answer_of(response, said_yes)
    except ServerUnreachable:
        raise
    except ShiftbossError as error:
        if says_later(response):
            raise ServerUnreachable(error.detail) from error
        raise
    if answer[said_yes] is not True:
        raise ForeignAnswer(f"{response.status_code} came back with {said_yes} not true")
    return answer
