"""Webhooks of a forge: they make the next check of a commit due at once.

Their content is never trusted, so a webhook that is lost, late or repeated changes no result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256

from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.coordinator.deployment.last_seen import LastSeen
from shiftboss.evidence.ci.forge_api.lru_cache import LruCache
from shiftboss.evidence.ci.webhooks import parse_webhook, secret_of
from shiftboss.protocol.ci import WebhookAnswer
from shiftboss.protocol.policy import CiPolicy
from shiftboss.rules.contract.records import Tracking
from shiftboss.store.port import Store, Transaction

# A repeated webhook makes the server ask the forge once, not every time.
REMEMBERED_MAX = 1000


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
        commits = parse_webhook(ci.provider, headers, body, secret_of(ci))
        self.last_seen.note(repo, self._clock())
        digest = sha256(f"{repo}\0".encode() + body).digest()
        if self._received.get(digest) is not None:
            return WebhookAnswer(looks=0)
        checks = 0
        for name, sha in commits:
            if name.casefold() == (ci.repository or "").casefold():
                checks += await self._check_commits(repo, sha)
        # Only now: if the store refuses the change, the forge may send the webhook again.
        self._received.put(digest, checks)
        return WebhookAnswer(looks=checks)

    async def _check_commits(self, repo: str, sha: str) -> int:
        now_ms = self._clock()
        checks = 0
        for tracking in await self._store.read(lambda tx: tx.tracking_of_sha(repo, sha)):
            use_case = partial(check_now, seen=tracking, now_ms=now_ms)
            checks += await self._store.write(use_case, tracking.swarm_id)
        if checks:
            self._wake()
            await self._store.call_leader()
        return checks


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
