"""Use cases of named tokens: create, rotate, revoke, list.

The token itself is made outside of the transaction and is in no row, event or stored answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from shiftboss.errors import (
    Conflict,
    InvalidRequest,
    TokenExists,
    Unauthorized,
    UnknownTask,
    UnknownToken,
)
from shiftboss.protocol.deployment.tokens import (
    CreateTaskTokenRequest,
    CreateTokenRequest,
    RotateTokenRequest,
    TokenView,
)
from shiftboss.rules.access.actors import RESERVED_NAMES
from shiftboss.rules.access.roles import Role
from shiftboss.rules.access.scope import LIMITED_TO_SWARM, LIMITED_TO_TASK, LIMITED_TO_WORKER
from shiftboss.rules.access.tokens import StoredToken
from shiftboss.store.port import Transaction

# Every server keeps them in memory.
TOKENS_MAX: Final = 20_000
# Of them, those that only the operator can use up.
TOKENS_KEPT_FREE: Final = 1_000
# No name that a person can choose begins like this.
AGENT_PREFIX: Final = "agent:"


def create(
    tx: Transaction, request: CreateTokenRequest, token_id: str, digest: bytes, now_ms: int
) -> StoredToken:
    if request.name.lower() in RESERVED_NAMES:
        raise InvalidRequest(
            f"name: {request.name} is reserved for callers without a named token",
            field="name",
            hint=f"choose another one than {', '.join(sorted(RESERVED_NAMES))}",
        )
    _check_limits(request)
    if _valid_named(tx, request.name, now_ms):
        raise TokenExists(request.name)
    return add(
        tx,
        StoredToken(
            token_id=token_id,
            name=request.name,
            digest=digest,
            role=request.role,
            swarm_id=request.swarm_id,
            task_id=request.bead_id,
            worker=request.worker,
            created_at_ms=now_ms,
            created_by=tx.actor.name,
            expires_at_ms=_end_ms(now_ms, request.expires_in_seconds),
        ),
    )


def _check_limits(request: CreateTokenRequest) -> None:
    role = Role(request.role)
    limits = (
        ("swarm_id", request.swarm_id, LIMITED_TO_SWARM),
        ("bead_id", request.bead_id, LIMITED_TO_TASK),
        ("worker", request.worker, LIMITED_TO_WORKER),
    )
    for field, value, roles in limits:
        if value is not None and role not in roles:
            raise InvalidRequest(
                f"{field}: a token of the role {role.value} cannot be limited like this",
                field=field,
                hint=f"leave it out; roles that can be: {', '.join(sorted(roles))}",
            )
    if request.bead_id is not None and request.swarm_id is None:
        raise InvalidRequest(
            "swarm_id: a token that is limited to a task needs the swarm of the task",
            field="swarm_id",
        )


def create_for_task(
    tx: Transaction, request: CreateTaskTokenRequest, token_id: str, digest: bytes, now_ms: int
) -> StoredToken:
    if tx.task(request.swarm_id, request.bead_id) is None:
        raise UnknownTask(request.bead_id)
    ends_ms = [now_ms + request.expires_in_seconds * 1000, *end_of_maker(tx, now_ms)]
    return add(
        tx,
        StoredToken(
            token_id=token_id,
            name=f"{AGENT_PREFIX}{request.bead_id}",
            digest=digest,
            role=Role.WORKER.value,
            swarm_id=request.swarm_id,
            task_id=request.bead_id,
            worker=request.name,
            created_at_ms=now_ms,
            created_by=tx.actor.name,
            expires_at_ms=min(ends_ms),
        ),
        kept_free=TOKENS_KEPT_FREE,
    )


def end_of_maker(tx: Transaction, now_ms: int) -> list[int]:
    """When the last token of the caller's name expires, if it does: tokens that it makes must not
    outlive it. While it is rotated, the new one counts. Raises Unauthorized if it was revoked by
    now."""
    if not tx.actor.is_named:
        return []
    if tx.actor.is_session and tx.actor.expires_at_ms is not None:
        return [tx.actor.expires_at_ms]
    valid = _valid_named(tx, tx.actor.name, now_ms)
    if not valid:
        raise Unauthorized("the token is no longer valid", field="Authorization")
    ends = [token.expires_at_ms for token in valid if token.expires_at_ms is not None]
    return [max(ends)] if len(ends) == len(valid) else []


def revoke_for_task(tx: Transaction, swarm_id: str, token_id: str, now_ms: int) -> bool:
    """Only a token of an agent, and only one of this swarm."""
    token = tx.token(token_id)
    if token is None or token.swarm_id != swarm_id or not _is_of_agent(token):
        return False
    is_revoked = tx.revoke_token(token_id, now_ms, tx.actor.name)
    if is_revoked:
        tx.announce_settings()
    return is_revoked


def rotate(
    tx: Transaction, request: RotateTokenRequest, token_id: str, digest: bytes, now_ms: int
) -> tuple[StoredToken, list[StoredToken]]:
    """The new token, and those that it replaces."""
    older = _valid_named(tx, request.name, now_ms)
    if not older:
        raise UnknownToken(request.name)
    newest = older[-1]
    lifetime_ms = (
        None if newest.expires_at_ms is None else newest.expires_at_ms - newest.created_at_ms
    )
    expires_at_ms = None if lifetime_ms is None else now_ms + lifetime_ms
    if request.expires_in_seconds is not None:
        expires_at_ms = _end_ms(now_ms, request.expires_in_seconds)
    created = add(
        tx,
        newest._replace(
            token_id=token_id,
            digest=digest,
            created_at_ms=now_ms,
            created_by=tx.actor.name,
            expires_at_ms=expires_at_ms,
        ),
    )
    return created, [_end(tx, token, request.overlap_seconds, now_ms) for token in older]


def _end(tx: Transaction, token: StoredToken, overlap_seconds: int, now_ms: int) -> StoredToken:
    """A token that ends sooner than the overlap keeps its end."""
    if overlap_seconds == 0:
        return _revoke(tx, token, now_ms)
    end_ms = now_ms + overlap_seconds * 1000
    if token.expires_at_ms is None or token.expires_at_ms > end_ms:
        tx.set_token_expiry(token.token_id, end_ms)
        return token._replace(expires_at_ms=end_ms)
    return token


def revoke(tx: Transaction, name_or_id: str, now_ms: int) -> list[StoredToken]:
    by_id = tx.token(name_or_id)
    named = tx.tokens_named(name_or_id)
    tokens = named if by_id is None or by_id.revoked_at_ms is not None else [by_id]
    if not tokens:
        raise UnknownToken(name_or_id)
    tokens = [*tokens, *_made_with(tx, tokens, now_ms)]
    revoked = [_revoke(tx, token, now_ms) for token in tokens]
    tx.announce_settings()
    return revoked


def _made_with(tx: Transaction, makers: Sequence[StoredToken], now_ms: int) -> list[StoredToken]:
    """The tokens for agents and the sessions that were made with these, if no other token of their
    name is left. A session makes nothing that ends with it."""
    ending = {token.token_id for token in makers}
    valid = [
        token
        for token in tx.tokens()
        if token.token_id not in ending and not is_over(token, now_ms)
    ]
    names = {token.name for token in makers if not token.is_session}
    names -= {token.name for token in valid if not token.is_session}
    return [
        token
        for token in valid
        if (token.is_session and token.name in names)
        or (_is_of_agent(token) and token.created_by in names)
    ]


def has_valid(tx: Transaction, name: str, now_ms: int) -> bool:
    """Whether there is a token of the name that is no session."""
    return bool(_valid_named(tx, name, now_ms))


def _valid_named(tx: Transaction, name: str, now_ms: int) -> list[StoredToken]:
    """The tokens of a name, without the sessions of who has it."""
    return [
        token
        for token in tx.tokens_named(name)
        if not token.is_session and not is_over(token, now_ms)
    ]


def _is_of_agent(token: StoredToken) -> bool:
    return token.name.startswith(AGENT_PREFIX)


def _revoke(tx: Transaction, token: StoredToken, now_ms: int) -> StoredToken:
    tx.revoke_token(token.token_id, now_ms, tx.actor.name)
    return token._replace(revoked_at_ms=now_ms, revoked_by=tx.actor.name)


def add(tx: Transaction, token: StoredToken, kept_free: int = 0) -> StoredToken:
    valid = sum(not is_over(each, token.created_at_ms) for each in tx.tokens())
    if valid >= TOKENS_MAX - kept_free:
        raise Conflict(
            f"there are {valid} tokens already; nothing was changed",
            hint="revoke unused tokens: `shiftboss token list`",
        )
    tx.add_token(token)
    tx.announce_settings()
    return token


def _end_ms(now_ms: int, seconds: int | None) -> int | None:
    return None if seconds is None else now_ms + seconds * 1000


def is_over(token: StoredToken, now_ms: int) -> bool:
    is_expired = token.expires_at_ms is not None and token.expires_at_ms <= now_ms
    return is_expired or token.revoked_at_ms is not None


def view(token: StoredToken, now_ms: int) -> TokenView:
    is_revoked = token.revoked_at_ms is not None
    ended = "revoked" if is_revoked else "expired"
    return TokenView(
        token_id=token.token_id,
        name=token.name,
        role=token.role,
        status=ended if is_over(token, now_ms) else "valid",
        swarm_id=token.swarm_id,
        bead_id=token.task_id,
        worker=token.worker,
        created_at=token.created_at_ms,
        created_by=token.created_by,
        expires_at=token.expires_at_ms,
        revoked_at=token.revoked_at_ms,
        revoked_by=token.revoked_by,
        is_session=token.is_session,
    )
