"""The operations of named tokens. A change is in force on this server before it is answered, and on
the others a moment later."""

from __future__ import annotations

import secrets
from typing import NamedTuple, TypeVar

from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.deployment import tokens
from shiftboss.coordinator.deployment.shared_settings import SharedSettings
from shiftboss.defaults import TOKEN_PREFIX
from shiftboss.protocol.deployment.tokens import (
    CreateTaskTokenRequest,
    CreateTokenAnswer,
    CreateTokenRequest,
    ListTokensRequest,
    RevokeTaskTokenAnswer,
    RevokeTaskTokenRequest,
    RevokeTokenAnswer,
    RevokeTokenRequest,
    RotateTokenAnswer,
    RotateTokenRequest,
    TokenList,
)
from shiftboss.rules.access.tokens import TOKEN_BYTES, token_digest
from shiftboss.store.port import Store, UseCase

T = TypeVar("T")


class _NewToken(NamedTuple):
    token_id: str
    token: str
    digest: bytes


def _new_token() -> _NewToken:
    token = TOKEN_PREFIX + secrets.token_urlsafe(TOKEN_BYTES)
    return _NewToken(f"tok-{secrets.token_hex(8)}", token, token_digest(token.encode()))


class TokenService:
    """Idempotency keys are not used: the answers have tokens, and would have to be stored. A client
    that did not get its answer rotates or revokes the token."""

    def __init__(self, store: Store, clock: Clock, settings: SharedSettings) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings

    async def create_token(
        self, request: CreateTokenRequest, _key: str | None = None
    ) -> CreateTokenAnswer:
        new, now_ms = _new_token(), self._clock()
        created = await self._change(
            lambda tx: tokens.create(tx, request, new.token_id, new.digest, now_ms)
        )
        return CreateTokenAnswer(token=new.token, created=tokens.view(created, now_ms))

    async def create_task_token(
        self, request: CreateTaskTokenRequest, _key: str | None = None
    ) -> CreateTokenAnswer:
        new, now_ms = _new_token(), self._clock()
        created = await self._change(
            lambda tx: tokens.create_for_task(tx, request, new.token_id, new.digest, now_ms)
        )
        return CreateTokenAnswer(token=new.token, created=tokens.view(created, now_ms))

    async def revoke_task_token(
        self, request: RevokeTaskTokenRequest, _key: str | None = None
    ) -> RevokeTaskTokenAnswer:
        now_ms = self._clock()
        is_revoked = await self._change(
            lambda tx: tokens.revoke_for_task(tx, request.swarm_id, request.token_id, now_ms)
        )
        return RevokeTaskTokenAnswer(revoked=is_revoked)

    async def rotate_token(
        self, request: RotateTokenRequest, _key: str | None = None
    ) -> RotateTokenAnswer:
        new, now_ms = _new_token(), self._clock()
        created, older = await self._change(
            lambda tx: tokens.rotate(tx, request, new.token_id, new.digest, now_ms)
        )
        return RotateTokenAnswer(
            token=new.token,
            created=tokens.view(created, now_ms),
            replaced=[tokens.view(token, now_ms) for token in older],
        )

    async def revoke_token(
        self, request: RevokeTokenRequest, _key: str | None = None
    ) -> RevokeTokenAnswer:
        now_ms = self._clock()
        revoked = await self._change(lambda tx: tokens.revoke(tx, request.token, now_ms))
        return RevokeTokenAnswer(revoked=[tokens.view(token, now_ms) for token in revoked])

    async def list_tokens(self, request: ListTokensRequest, _key: str | None = None) -> TokenList:
        now_ms = self._clock()
        rows = await self._store.read(lambda tx: tx.tokens_after(request.after, request.limit))
        return TokenList(
            tokens=[
                tokens.view(token, now_ms)
                for token in rows
                if request.ended or not tokens.is_over(token, now_ms)
            ],
            next_after=rows[-1].token_id if len(rows) == request.limit else None,
        )

    async def _change(self, use_case: UseCase[T]) -> T:
        result = await self._store.write(use_case, "")
        await self._settings.read_own_change()
        return result
