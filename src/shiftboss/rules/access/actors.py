"""The actor of a request: who it is, and what it is limited to."""

from __future__ import annotations

from typing import Final, NamedTuple

from shiftboss.rules.access.roles import Role

# How the ids of the tokens begin that sessions of the page have.
SESSION_PREFIX: Final = "ses-"


class Actor(NamedTuple):
    """`name` is that of a token, or one of the names below. An actor may be limited to a swarm, to
    one task of it, or to what it does as one worker."""

    name: str
    role: Role
    swarm_id: str | None = None
    task_id: str | None = None
    worker: str | None = None
    expires_at_ms: int | None = None
    # Of a named token; None for the names below.
    token_id: str | None = None

    @property
    def is_limited(self) -> bool:
        return self.swarm_id is not None or self.worker is not None

    def sees(self, swarm_id: str) -> bool:
        return self.swarm_id is None or swarm_id == self.swarm_id

    @property
    def is_named(self) -> bool:
        """Whether a token says who it is."""
        return self.token_id is not None

    @property
    def is_session(self) -> bool:
        """Whether it is a person who has logged in to the page."""
        return self.token_id is not None and self.token_id.startswith(SESSION_PREFIX)

    def recorded_as(self, given: str) -> str:
        """The name for a decision: that of the token. Without one, what the request says."""
        return self.name if self.is_named else given


def verifier_name(actor: Actor, given: str) -> str:
    """The name under which a verifier holds claims. Of a token that is not limited to one name, it
    begins with the name of the token: nobody settles a claim that another token has taken."""
    if not actor.is_named or actor.worker is not None or given == actor.name:
        return given
    return f"{actor.name}/{given}"


# The server itself: its duties.
SERVER: Final = Actor("server", Role.OPERATOR)
# Who has the operator's token of the server, which has no other name.
OPERATOR: Final = Actor("operator", Role.OPERATOR)
# Somebody on the same machine, where no token is needed.
LOCAL: Final = Actor("local", Role.ANYBODY)
# Somebody who has the token that all share.
SHARED: Final = Actor("shared", Role.ANYBODY)
# A forge that sends webhooks, which it signs.
FORGE: Final = Actor("forge", Role.READ_ONLY)
# Somebody whom access control has not admitted.
UNKNOWN: Final = Actor("unknown", Role.READ_ONLY)

# No token may have one of these names.
RESERVED_NAMES: Final = frozenset(
    actor.name for actor in (SERVER, OPERATOR, LOCAL, SHARED, FORGE, UNKNOWN)
)
