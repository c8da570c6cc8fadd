"""Webhooks of a forge: they make the next check of a commit due at once.

Their content is never trusted, so a webhook that is lost, late or repeated changes no result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import Final

from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.evidence.ci.credentials import read_webhook_secret
from shiftboss.evidence.ci.forge_api.lru_cache import LruCache
from shiftboss.evidence.ci.webhooks import ForgeWebhook, parse_webhook
from shiftboss.protocol.ci import WebhookAnswer, WebhookReason
from shiftboss.protocol.policy import CiPolicy
from shiftboss.rules.contract.records import Tracking
from shiftboss.store.port import Store, Transaction

# A repeated webhook makes the server ask the forge once, not every time.
REMEMBERED_MAX = 1000
SHOWN_CHARACTERS_MAX = 200

# Names come from outside.
NAMES_MAX: Final = 100


class Webhooks:
    """`wake` wakes the CI watcher of this server; one on another server is called through the
    store."""

    def __init__(
        self, store: Store, clock: Clock, policy: ActivePolicy, wake: Callable[[], None]
    ) -> None:
        self._store = store
        self._clock = clock
        self._policy = policy
        self._wake = wake
        self.last_seen = LastSeen()
        self._received: LruCache[bytes, int] = LruCache(REMEMBERED_MAX)

    async def receive(self, repo: str, headers: Mapping[str, str], body: bytes) -> WebhookAnswer:
        """Raises Forbidden for a request that is not signed with the secret of the repo; unknown
        repos look the same to such a caller."""
        repo_policy = self._policy.settings.repos.get(repo)
        ci = repo_policy.ci if repo_policy is not None else CiPolicy()
        secret = await asyncio.to_thread(read_webhook_secret, ci)
        webhook = parse_webhook(ci.provider, headers, body, secret)
        self.last_seen.note(repo, self._clock())
        digest = sha256(f"{repo}\0".encode() + body).digest()
        if self._received.get(digest) is not None:
            return _no_looks("repeated", "the same body was received before")
        answer = await self._follow(repo, ci.repository or "", webhook)
        # Only now: if the store refuses the change, the forge may send the webhook again.
        self._received.put(digest, answer.looks)
        return answer

    async def _follow(self, repo: str, repository: str, webhook: ForgeWebhook) -> WebhookAnswer:
        """The sender has the secret, so it may know why nothing is checked."""
        if not webhook.concerns_ci:
            event = f"the event {webhook.event!r}" if webhook.event else "a body without an event"
            return _no_looks("event_ignored", f"{event} does not concern CI")
        if not webhook.commits:
            return _no_looks("no_commit", f"the event {webhook.event!r} names no new commit")
        shas = [sha for name, sha in webhook.commits if name.casefold() == repository.casefold()]
        if not shas:
            sender = webhook.commits[0][0][:SHOWN_CHARACTERS_MAX]
            return _no_looks(
                "other_repository", f"it is about {sender!r}; the policy of {repo} has {repository}"
            )
        tracked = await self._store.read(
            lambda tx: [tracking for sha in shas for tracking in tx.tracking_of_sha(repo, sha)]
        )
        if not tracked:
            return _no_looks("not_waiting", f"no task waits for the CI of {shas[0][:12]} in {repo}")
        checks = await self._check_commits(tracked)
        if not checks:
            return _no_looks(
                "forge_pause", "the check is done already, or the forge has asked for a pause"
            )
        return WebhookAnswer(looks=checks)

    async def _check_commits(self, tracked: Sequence[Tracking]) -> int:
        now_ms = self._clock()
        checks = 0
        for tracking in tracked:
            use_case = partial(check_now, seen=tracking, now_ms=now_ms)
            checks += await self._store.write(use_case, tracking.swarm_id)
        if checks:
            self._wake()
            await self._store.call_leader()
        return checks


def _no_looks(reason: WebhookReason, detail: str) -> WebhookAnswer:
    return WebhookAnswer(looks=0, reason=reason, detail=detail)


def check_now(tx: Transaction, seen: Tracking, now_ms: int) -> bool:
    """Make the check of a commit due now. False if it is no longer followed, or if the forge did
    not respond last time: then the pause stays. A running check sees the new time, and knows that
    its report may be out of date."""
    if tx.take_swarm(seen.swarm_id) is None:
        return False
    current = tx.tracking(seen.swarm_id, seen.task_id)
    if current is None or current.sha != seen.sha or current.look_at_ms is None or current.errors:
        return False
    tx.put_tracking(current._replace(look_at_ms=now_ms))
    return True


class LastSeen:
    def __init__(self) -> None:
        self._at_ms: dict[str, int] = {}

    def note(self, name: str, at_ms: int) -> None:
        self._at_ms.pop(name, None)
        self._at_ms[name] = at_ms
        if len(self._at_ms) > NAMES_MAX:
            del self._at_ms[next(iter(self._at_ms))]

    def by_name(self) -> dict[str, int] | None:
        """None if there was none."""
        return dict(self._at_ms) or None
