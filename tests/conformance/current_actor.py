"""Calls in the name of somebody."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from shiftboss.rules.access.actors import Actor
from shiftboss.store.current_actor import CURRENT_ACTOR


@contextmanager
def acting_as(actor: Actor) -> Iterator[None]:
    before = CURRENT_ACTOR.set(actor)
    try:
        yield
    finally:
        CURRENT_ACTOR.reset(before)
