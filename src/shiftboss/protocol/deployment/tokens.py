"""Requests and responses about named tokens.

A response has the token itself only when it was made: it is stored as a digest.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from shiftboss.protocol.bus import BusRequest, TaskId, WorkerName
from shiftboss.protocol.fields import NO_NUL, Answer, Request, SwarmId

SECONDS_MAX = 10 * 366 * 86_400
OVERLAP_SECONDS_DEFAULT = 3_600
OVERLAP_SECONDS_MAX = 90 * 86_400
# The longest attempt of an agent, with room for its verification.
TASK_TOKEN_SECONDS_MAX = 30 * 86_400

TokenName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$")]
TokenId = Annotated[str, StringConstraints(pattern=r"^tok-[0-9a-f]{16}$")]
NameOrId = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=NO_NUL)]
RoleName = Literal["worker", "spawner", "orchestrator", "verifier", "operator", "read-only"]
Lifetime = Annotated[int, Field(ge=1, le=SECONDS_MAX)]


class CreateTokenRequest(Request):
    """The token may be limited to a swarm, to one task of it (`bead_id`), and to one worker or
    verifier by its name. Without `expires_in_seconds` it is valid until it is revoked."""

    name: TokenName
    role: RoleName
    swarm_id: SwarmId | None = None
    bead_id: TaskId | None = None
    worker: WorkerName | None = None
    expires_in_seconds: Lifetime | None = None


class ListTokensRequest(Request):
    """`after` is the `next_after` of another page. With `ended`, those that were revoked or have
    expired are listed as well, until they are deleted."""

    ended: bool = False
    after: Annotated[str, StringConstraints(max_length=200, pattern=NO_NUL)] = ""
    limit: Annotated[int, Field(ge=1, le=500)] = 100


class RevokeTokenRequest(Request):
    """`token` is a name, which may have several tokens while they are rotated, or the id of one."""

    token: NameOrId


class RotateTokenRequest(Request):
    """The older tokens of the name stay valid for `overlap_seconds`. The new one has their role and
    limits, and expires after as long a time, unless `expires_in_seconds` says otherwise."""

    name: TokenName
    overlap_seconds: Annotated[int, Field(ge=0, le=OVERLAP_SECONDS_MAX)] = OVERLAP_SECONDS_DEFAULT
    expires_in_seconds: Lifetime | None = None


class CreateTaskTokenRequest(BusRequest):
    """A token for the agent of one attempt: the role worker, limited to the task. With `name` it is
    limited to that worker as well."""

    bead_id: TaskId
    name: WorkerName | None = None
    expires_in_seconds: Annotated[int, Field(ge=1, le=TASK_TOKEN_SECONDS_MAX)]


class RevokeTaskTokenRequest(BusRequest):
    token_id: TokenId


class TokenView(Answer):
    """`status` is valid, expired or revoked. `is_session`: somebody who has logged in to the
    page."""

    token_id: str
    name: str
    role: str
    status: str
    swarm_id: str | None
    bead_id: str | None
    worker: str | None
    created_at: int
    created_by: str
    expires_at: int | None
    revoked_at: int | None
    revoked_by: str | None
    is_session: bool = False


class CreateTokenAnswer(Answer):
    """`token` is shown only here."""

    token: str = Field(repr=False)
    created: TokenView


class RotateTokenAnswer(Answer):
    """`token` is shown only here. `replaced` are the older ones, with the time of their end."""

    token: str = Field(repr=False)
    created: TokenView
    replaced: list[TokenView]


class TokenList(Answer):
    tokens: list[TokenView]
    next_after: str | None


class RevokeTokenAnswer(Answer):
    revoked: list[TokenView]


class RevokeTaskTokenAnswer(Answer):
    """Not `revoked`: it was before, or there is no such token."""

    revoked: bool
