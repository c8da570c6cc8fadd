"""Whether the caller of a request that waits is still admitted: its token may end while it
waits."""

from __future__ import annotations

from collections.abc import Callable

from shiftboss.errors import Unauthorized
from shiftboss.rules.access.actors import Actor
from shiftboss.store.current_actor import CURRENT_ACTOR


class Admissions:
    """`is_valid` is set by the application, which knows the tokens."""

    def __init__(self) -> None:
        self.is_valid: Callable[[Actor], bool] = _always

    def check(self) -> None:
        """After a wait, before the caller gets work. Raises Unauthorized."""
        if not self.is_valid(CURRENT_ACTOR.get()):
            raise Unauthorized(
                "the token has expired or was revoked while the request waited",
                field="Authorization",
                facts={"reason": "invalid"},
            )


def _always(_actor: Actor) -> bool:
    return True
