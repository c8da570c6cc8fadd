"""Deletes what is older than the retention time, and old idempotency answers.

Every transaction is small, so that the requests of others are not held up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import ClassVar, TypeVar

from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.duties.duty_record import DutyRecord
from shiftboss.coordinator.swarms import retention
from shiftboss.coordinator.swarms.deletion import (
    EVENTS_PER_TRANSACTION_MAX,
    TASKS_PER_TRANSACTION_MAX,
)
from shiftboss.errors import LeadershipLost, ShiftbossError, StoreDamaged
from shiftboss.store.port import Transaction, Transactions, nothing_to_reload

log = logging.getLogger(__name__)

T = TypeVar("T")

ROUND_SECONDS = 3600.0
# A round deletes what is due in small transactions. One that fails is followed by the next.
STUCK_SECONDS = 3 * ROUND_SECONDS
SWARMS_PER_PAGE = 50
TASKS_PER_PAGE = 500
DAY_MS = 86_400_000
ANSWERS_KEPT_MS = 7 * DAY_MS
ANSWERS_PER_TRANSACTION_MAX = 500
TOKENS_PER_TRANSACTION_MAX = 500


def _nothing() -> None:
    pass


class Cleaner:
    on_every_server: ClassVar[bool] = False

    def __init__(
        self,
        store: Transactions,
        clock: Clock,
        retention_days: int,
        on_deleted: Callable[[], None] = nothing_to_reload,
    ) -> None:
        """`on_deleted` is called when a swarm or tasks were deleted, and their tokens with them."""
        self._store = store
        self._clock = clock
        self._retention_ms = retention_days * DAY_MS
        self._on_deleted = on_deleted
        self.record = DutyRecord(type(self).__name__, STUCK_SECONDS)

    async def run(self) -> None:
        while True:
            try:
                with self.record.round():
                    await self.run_once()
            except ShiftbossError as error:
                log.warning("cleaning failed, will try again: %s", error)
            except Exception:
                log.exception("cleaning failed, will try again")
            await asyncio.sleep(ROUND_SECONDS)

    async def run_once(self) -> int:
        """How many swarms were deleted."""
        before_ms = self._clock() - self._retention_ms
        deleted = 0
        before: tuple[int, str] | None = None
        while True:
            page = await self._store.read(
                partial(
                    retention.page_of_swarms,
                    before=before,
                    before_ms=before_ms,
                    limit=SWARMS_PER_PAGE,
                )
            )
            for swarm_id in page.over:
                deleted += bool(await self._try(swarm_id, self._delete_swarm(swarm_id, before_ms)))
            for swarm_id in page.others:
                await self._try(swarm_id, self._prune(swarm_id, before_ms))
            before = page.next_before
            if before is None:
                break
        await self._forget_answers()
        await self._prune_records(before_ms)
        await self._forget_tokens(before_ms)
        return deleted

    async def _try(self, swarm_id: str, cleaning: Awaitable[T]) -> T | None:
        """One swarm that cannot be cleaned does not keep the others; the next round tries again."""
        try:
            return await cleaning
        except (LeadershipLost, StoreDamaged):
            raise
        except ShiftbossError as error:
            facts = {"facts": {"swarm": swarm_id}}
            log.warning(
                "swarm %s cannot be cleaned, will try again: %s", swarm_id, error, extra=facts
            )
        except Exception:
            facts = {"facts": {"swarm": swarm_id}}
            log.exception("swarm %s cannot be cleaned, will try again", swarm_id, extra=facts)
        # Raises if the database is the reason: then the others would only wait for it, too.
        await self._store.read(lambda tx: tx.next_retry_at_ms())
        return None

    async def _delete_swarm(self, swarm_id: str, before_ms: int) -> bool:
        """False if it is in use again."""
        delete = partial(retention.delete_old_swarm, swarm_id=swarm_id, before_ms=before_ms)
        while (is_gone := await self._store.write(delete, swarm_id)) is False:
            pass
        self._on_deleted()
        return bool(is_gone)

    async def _prune(self, swarm_id: str, before_ms: int) -> None:
        """Old events, workers and tasks of a swarm that is still in use."""
        for prune in (retention.prune_events, retention.prune_workers):
            prune_some = partial(
                prune, swarm_id=swarm_id, before_ms=before_ms, limit=EVENTS_PER_TRANSACTION_MAX
            )
            while await self._store.write(prune_some, swarm_id) == EVENTS_PER_TRANSACTION_MAX:
                pass
        await self._prune_tasks(swarm_id, before_ms)

    async def _prune_tasks(self, swarm_id: str, before_ms: int) -> None:
        after: str | None = ""
        while after is not None:
            old, after = await self._store.read(
                partial(
                    retention.old_tasks,
                    swarm_id=swarm_id,
                    after=after,
                    before_ms=before_ms,
                    limit=TASKS_PER_PAGE,
                )
            )
            for start in range(0, len(old), TASKS_PER_TRANSACTION_MAX):
                task_ids = old[start : start + TASKS_PER_TRANSACTION_MAX]
                prune = partial(
                    retention.prune_tasks,
                    swarm_id=swarm_id,
                    task_ids=task_ids,
                    before_ms=before_ms,
                )
                if await self._store.write(prune, swarm_id):
                    self._on_deleted()

    async def _prune_records(self, before_ms: int) -> None:
        """Rows of no swarm: pushes, signals."""
        prune = partial(_prune_records, before_ms=before_ms)
        while await self._store.write(prune, "") == ANSWERS_PER_TRANSACTION_MAX:
            pass

    async def _forget_answers(self) -> None:
        """Repeats come within minutes; a week covers workers that were offline."""
        before_ms = self._clock() - ANSWERS_KEPT_MS
        forget = partial(_forget, before_ms=before_ms)
        while await self._store.write(forget, "") == ANSWERS_PER_TRANSACTION_MAX:
            pass

    async def _forget_tokens(self, before_ms: int) -> None:
        """Those that were revoked or expired before then. They are in no server's memory."""
        forget = partial(_forget_tokens, before_ms=before_ms)
        while await self._store.write(forget, "") == TOKENS_PER_TRANSACTION_MAX:
            pass


def _forget_tokens(tx: Transaction, before_ms: int) -> int:
    return tx.forget_tokens(before_ms, TOKENS_PER_TRANSACTION_MAX)


def _prune_records(tx: Transaction, before_ms: int) -> int:
    return tx.prune_records(before_ms, ANSWERS_PER_TRANSACTION_MAX)


def _forget(tx: Transaction, before_ms: int) -> int:
    return tx.forget_answers(before_ms, ANSWERS_PER_TRANSACTION_MAX)
