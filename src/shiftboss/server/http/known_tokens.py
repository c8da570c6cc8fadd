"""The tokens that this server knows, by their digests, and whom they belong to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from shiftboss.rules.access.actors import OPERATOR, SHARED, Actor
from shiftboss.rules.access.tokens import StoredToken, actor_of, token_digest
from shiftboss.rules.deployment.servers import token_mark


class KnownTokens:
    """A token is looked up by its digest, so that the time of a look-up tells nothing about it.

    `version` changes with the tokens: what was found before has to be looked up again.
    """

    def __init__(
        self,
        clock: Callable[[], int],
        shared: Sequence[str] = (),
        operator: Sequence[str] = (),
    ) -> None:
        self.version = 0
        self._clock = clock
        self._named: dict[bytes, Actor] = {}
        # By the digests of their cookies, which are no tokens.
        self._sessions: dict[bytes, Actor] = {}
        self._named_ids: frozenset[str] = frozenset()
        self._given: dict[bytes, Actor] = {}
        self.replace_given(shared, operator)

    def replace_given(self, shared: Sequence[str], operator: Sequence[str]) -> None:
        """The tokens from files and the environment: those that all share, and the operator's. Of
        each there may be several while they are rotated."""
        self._given = {token_digest(token.encode()): SHARED for token in shared if token}
        self._given |= {token_digest(token.encode()): OPERATOR for token in operator if token}
        self.version += 1

    def replace_named(self, tokens: Iterable[StoredToken]) -> None:
        """The tokens from the store."""
        actors = [(token.digest, actor_of(token)) for token in tokens]
        named = {digest: actor for digest, actor in actors if not actor.is_session}
        sessions = {digest: actor for digest, actor in actors if actor.is_session}
        if (named, sessions) == (self._named, self._sessions):
            return  # something else was changed
        self._named, self._sessions = named, sessions
        self._named_ids = frozenset(
            actor.token_id for _, actor in actors if actor.token_id is not None
        )
        self.version += 1

    def operator_digest(self) -> str | None:
        """To compare servers; it is no help for guessing the token."""
        return token_mark(self._digests_of(OPERATOR))

    def shared_digest(self) -> str | None:
        return token_mark(self._digests_of(SHARED))

    def _digests_of(self, owner: Actor) -> list[bytes]:
        return sorted(digest for digest, actor in self._given.items() if actor is owner)

    def find(self, token: bytes) -> Actor | None:
        digest = token_digest(token)
        actor = self._given.get(digest) or self._named.get(digest)
        return None if actor is None or self.is_expired(actor) else actor

    def find_session(self, secret: bytes) -> Actor | None:
        actor = self._sessions.get(token_digest(secret))
        return None if actor is None or self.is_expired(actor) else actor

    def is_expired(self, actor: Actor) -> bool:
        return actor.expires_at_ms is not None and actor.expires_at_ms <= self._clock()

    def is_valid(self, actor: Actor) -> bool:
        """Whether an actor that was found before would still be found."""
        if actor.token_id is None:
            return True
        return actor.token_id in self._named_ids and not self.is_expired(actor)
