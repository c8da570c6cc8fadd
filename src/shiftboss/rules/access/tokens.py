"""Named tokens, as they are stored: by their digest."""

from __future__ import annotations

from typing import NamedTuple


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
