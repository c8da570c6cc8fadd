"""Polls that acknowledge the task they get, in the transaction that hands it out.

Such an attempt runs before its worker has seen the answer. If the answer is lost, the same poll,
sent again, gets the same attempt: the event of the start has a digest of the poll's idempotency
key. Polls without a key count as the same poll until the worker shows that it has the task.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

from shiftboss.rules.access.actors import SERVER, Actor


class PollAck(NamedTuple):
    """`key` is the idempotency key of the poll; `actor` who polls, and so starts the attempt."""

    key: str | None = None
    lease_seconds: int | None = None
    actor: Actor = SERVER

    def report_key(self, epoch: int) -> bytes:
        """Identifies the start of an attempt by this poll, which may be repeated for so long that
        it gets a later attempt of the same task, too."""
        name = "polled" if self.key is None else f"polled\0key\0{self.key}"
        return blake2b(f"{name}\0{epoch}".encode(), digest_size=16).digest()
