"""The current actor: that of the request that is being answered, for the events of its writes.

It belongs to the context of the request, like a request id in a log, so that services and use cases
need not pass it on. Outside of a request it is the server itself.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final, TypeVar

from shiftboss.rules.access.actors import SERVER, Actor
from shiftboss.store.port import Transaction, UseCase

T = TypeVar("T")

CURRENT_ACTOR: Final[ContextVar[Actor]] = ContextVar("actor", default=SERVER)


def in_name_of_caller(use_case: UseCase[T]) -> UseCase[T]:
    """The use case, which names the actor of this context in its events. It runs on a thread of
    the store, which has no context of a request."""
    actor = CURRENT_ACTOR.get()
    if actor is SERVER:
        return use_case

    def act(tx: Transaction) -> T:
        tx.actor = actor
        return use_case(tx)

    return act
