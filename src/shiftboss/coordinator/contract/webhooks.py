"""A forge tells by itself that a commit has news: the look at it is due now, not at its time.

What it tells is never believed, so a webhook that is lost, late or sent again changes no result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256

from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.evidence.ci.forge_api.lru_cache import LruCache
from shiftboss.evidence.ci.webhooks import parse_webhook, secret_of
from shiftboss.protocol.ci import WebhookAnswer
from shiftboss.protocol.policy import CiPolicy
from shiftboss.rules.contract.records import Tracking
from shiftboss.store.port import Store, Transaction

# A webhook that was recorded and is sent again has us ask the forge once, not as often as it comes.
REMEMBERED_MAX = 1000


class Webhooks:
    """`wake` has the watcher of this server look whether something is due; that of another one is
    called."""

    def __init__(
        self, store: Store, clock: Clock, policy: ActivePolicy, wake: Callable[[], None]
    ) -> None:
        self._store = store
        self._clock = clock
        self._policy = policy
        self._wake = wake
        self._heard: LruCache[bytes, int] = LruCache(REMEMBERED_MAX)

    async def receive(self, repo: str, headers: Mapping[str, str], body: bytes) -> WebhookAnswer:
        """Raises Forbidden for what is not signed with the secret of the repo. Who cannot sign does
        not learn which repos there are."""
        known = self._policy.settings.repos.get(repo)
        ci = known.ci if known is not None else CiPolicy()
        told = parse_webhook(ci.provider, headers, body, secret_of(ci))
        mark = sha256(f"{repo}\0".encode() + body).digest()
        if self._heard.get(mark) is not None:
            return WebhookAnswer(looks=0)
        looks = 0
        for name, sha in told:
            if name.casefold() == (ci.repository or "").casefold():
                looks += await self._look(repo, sha)
        # Not before: what the store did not take may be told again.
        self._heard.put(mark, looks)
        return WebhookAnswer(looks=looks)

    async def _look(self, repo: str, sha: str) -> int:
        now_ms = self._clock()
        looks = 0
        for one in await self._store.read(lambda tx: tx.tracking_of_sha(repo, sha)):
            use_case = partial(look_now, seen=one, now_ms=now_ms)
            looks += await self._store.write(use_case, one.swarm_id)
        if looks:
            self._wake()
            await self._store.call_leader()
        return looks


def look_now(tx: Transaction, seen: Tracking, now_ms: int) -> bool:
    """Whether it is still the commit that is followed. A forge that did not answer is left alone
    for as long as was decided then. A look that is under way sees by the new time that there are
    news since it began."""
    if tx.take_swarm(seen.swarm_id) is None:
        return False
    current = tx.tracking(seen.swarm_id, seen.task_id)
    if current is None or current.sha != seen.sha or current.look_at_ms is None or current.errors:
        return False
    tx.put_tracking(current._replace(look_at_ms=now_ms))
    return True
