"""Named tokens, as they are stored: by their digest."""

from __future__ import annotations

from hashlib import sha256
from typing import Final, NamedTuple

from shiftboss.rules.access.actors import SESSION_PREFIX, Actor
from shiftboss.rules.access.roles import Role


class StoredToken(NamedTuple):
    """`token_id` can be shown and is no secret; the token itself is shown once, when it is created.
    The digest is the SHA-256 of the token, which is random and long."""

    token_id: str
    name: str
    digest: bytes
    role: str
    swarm_id: str | None
    task_id: str | None
    worker: str | None
    created_at_ms: int
    created_by: str
    expires_at_ms: int | None = None
    revoked_at_ms: int | None = None
    revoked_by: str | None = None

    @property
    def is_session(self) -> bool:
        """A session is known by its cookie alone; it is no token for other requests."""
        return self.token_id.startswith(SESSION_PREFIX)


class LoginCode(NamedTuple):
    """A code that can be exchanged for a session once. The session has the name, the role and the
    limits of who made the code, and ends at `session_ends_at_ms` at the latest. `maker_id` is the
    id of its token; None for the operator's."""

    digest: bytes
    name: str
    role: str
    swarm_id: str | None
    task_id: str | None
    worker: str | None
    maker_id: str | None
    created_at_ms: int
    expires_at_ms: int
    session_ends_at_ms: int


TOKEN_BYTES: Final = 32


def token_digest(token: bytes) -> bytes:
    """Not a slow hash: a token is random and long, so that its digest cannot be guessed."""
    return sha256(token).digest()


def actor_of(token: StoredToken) -> Actor:
    return Actor(
        token.name,
        Role(token.role),
        token.swarm_id,
        token.task_id,
        token.worker,
        token.expires_at_ms,
        token.token_id,
    )
