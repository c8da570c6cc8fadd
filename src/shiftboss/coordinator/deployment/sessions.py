"""Logging in to the page: a code that is used once becomes a session, which is a token in a cookie.

Codes and sessions are stored as digests, in the database: every server on it knows them, and they
outlive a restart.
"""

from __future__ import annotations

import secrets
from typing import Final, NamedTuple

from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.deployment import tokens
from shiftboss.coordinator.deployment.shared_settings import SharedSettings
from shiftboss.errors import Conflict, LoginCodeInvalid
from shiftboss.protocol.deployment.sessions import CreateLoginRequest, LoginLink
from shiftboss.rules.access.actors import SESSION_PREFIX, Actor
from shiftboss.rules.access.roles import Role
from shiftboss.rules.access.tokens import TOKEN_BYTES, LoginCode, StoredToken, token_digest
from shiftboss.store.port import Store, Transaction

CODE_MS: Final = 10 * 60 * 1000
SESSION_MS: Final = 7 * 24 * 3600 * 1000
CODES_MAX: Final = 1_000
# Others cannot keep the operator from logging in.
CODES_OF_OPERATORS: Final = 100
# Of one name. The oldest goes when another one is made.
CODES_OF_NAME_MAX: Final = 20
# Of one name. The oldest ends when another one begins.
SESSIONS_MAX: Final = 50


class NewSession(NamedTuple):
    """`secret` is the value of the cookie, and stored nowhere."""

    secret: str
    token: StoredToken


class SessionService:
    """Idempotency keys are not used: the answers have secrets, and would have to be stored.
    `address` is where the page is, as far as the server knows it."""

    def __init__(self, store: Store, clock: Clock, settings: SharedSettings) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings
        self.address = ""

    async def create_login(self, request: CreateLoginRequest, _key: str | None = None) -> LoginLink:
        code, now_ms = secrets.token_urlsafe(TOKEN_BYTES), self._clock()
        made = await self._store.write(lambda tx: create_code(tx, _digest(code), now_ms), "")
        url = f"{self.address}/login#{code}"
        if request.swarm_id is not None:
            url += f"/s/{request.swarm_id}/board"
        return LoginLink(url=url, code=code, expires_at=made.expires_at_ms)

    async def log_in(self, code: str) -> NewSession:
        """Raises LoginCodeInvalid."""
        digest, now_ms = _digest(code), self._clock()
        # Any client can send a code: an unknown one costs no write.
        if not await self._store.read(lambda tx: tx.has_login_code(digest)):
            raise LoginCodeInvalid
        secret, token_id = secrets.token_urlsafe(TOKEN_BYTES), SESSION_PREFIX + secrets.token_hex(8)
        new_digest = token_digest(secret.encode())
        session = await self._store.write(
            lambda tx: redeem(tx, digest, token_id, new_digest, now_ms), ""
        )
        if session is None:
            raise LoginCodeInvalid
        await self._settings.read_own_change()
        return NewSession(secret, session)

    async def log_out(self, actor: Actor) -> bool:
        """End the session of the actor; False if it has none."""
        token_id, now_ms = actor.token_id, self._clock()
        if token_id is None or not actor.is_session:
            return False
        ended = await self._store.write(lambda tx: end(tx, token_id, now_ms), "")
        await self._settings.read_own_change()
        return ended


def _digest(code: str) -> bytes:
    return token_digest(code.encode())


def create_code(tx: Transaction, digest: bytes, now_ms: int) -> LoginCode:
    actor = tx.actor
    tx.forget_login_codes(now_ms)
    tx.forget_older_login_codes(actor.name, CODES_OF_NAME_MAX - 1)
    reserved = 0 if actor.role is Role.OPERATOR else CODES_OF_OPERATORS
    if tx.login_code_count() >= CODES_MAX - reserved:
        raise Conflict(
            "there are too many unused login links; nothing was changed",
            hint="wait ten minutes: then they are no longer valid",
        )
    code = LoginCode(
        digest=digest,
        name=actor.name,
        role=actor.role.value,
        swarm_id=actor.swarm_id,
        task_id=actor.task_id,
        worker=actor.worker,
        maker_id=actor.token_id,
        created_at_ms=now_ms,
        expires_at_ms=now_ms + CODE_MS,
        session_ends_at_ms=min([now_ms + SESSION_MS, *tokens.end_of_maker(tx, now_ms)]),
    )
    tx.add_login_code(code)
    return code


def redeem(
    tx: Transaction, digest: bytes, token_id: str, new_digest: bytes, now_ms: int
) -> StoredToken | None:
    """The session, or None if the code is no longer valid. The code is used up in any case."""
    code = tx.take_login_code(digest)
    if code is None or code.expires_at_ms <= now_ms or not _has_maker(tx, code, now_ms):
        return None
    _end_oldest(tx, code.name, now_ms)
    session = StoredToken(
        token_id=token_id,
        name=code.name,
        digest=new_digest,
        role=code.role,
        swarm_id=code.swarm_id,
        task_id=code.task_id,
        worker=code.worker,
        created_at_ms=now_ms,
        created_by=code.name,
        expires_at_ms=code.session_ends_at_ms,
    )
    return tokens.add(tx, session)


def _has_maker(tx: Transaction, code: LoginCode, now_ms: int) -> bool:
    """Whether who made the code still has a token: it may have been revoked since."""
    if code.maker_id is None:
        return True
    maker = tx.token(code.maker_id)
    if maker is not None and not tokens.is_over(maker, now_ms):
        return True
    return not code.maker_id.startswith(SESSION_PREFIX) and tokens.has_valid(tx, code.name, now_ms)


def _end_oldest(tx: Transaction, name: str, now_ms: int) -> None:
    sessions = [
        token
        for token in tx.tokens_named(name)
        if token.is_session and not tokens.is_over(token, now_ms)
    ]
    for token in sessions[: max(len(sessions) - SESSIONS_MAX + 1, 0)]:
        tx.revoke_token(token.token_id, now_ms, name)


def end(tx: Transaction, token_id: str, now_ms: int) -> bool:
    is_ended = tx.revoke_token(token_id, now_ms, tx.actor.name)
    if is_ended:
        tx.announce_settings()
    return is_ended
