"""Many use cases, one commit.

The first try runs the use cases of a batch one after the other in one transaction, without
savepoints. A use case that fails before it has written leaves nothing to undo: it gets its error,
and the others continue. If one fails after it has written, the whole batch is rolled back and run
again, with a savepoint for each use case. Use cases have no effect outside their transaction, so
running them again is safe.

A commit that failed may be found after a crash nevertheless. Then nobody is told that nothing was
changed, and the batch is not run again here: its callers repeat it with their keys.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from shiftboss.errors import OutcomeUnknown, StoreDamaged, StoreUnavailable
from shiftboss.protocol.events import Event
from shiftboss.store.monitoring.measures import Measurement
from shiftboss.store.port import UseCase
from shiftboss.store.transaction import SqlTransaction
from shiftboss.store.transaction_part import Session


class Outcome(NamedTuple):
    """What a use case returned, or the error it raised."""

    value: Any = None
    error: BaseException | None = None


class RunLater(Exception):
    """Not a failure: the use case runs again elsewhere. `enqueue` gets the future to answer."""

    def __init__(self, enqueue: Callable[[asyncio.Future[Any]], None]) -> None:
        super().__init__()
        self.enqueue = enqueue


class BatchResult(NamedTuple):
    outcomes: list[Outcome]
    events: list[Event]
    measurements: Sequence[Measurement] = ()


class WriteSession(Session, Protocol):
    """A connection that can write. `driver_error` is the base class of its driver's errors."""

    driver_error: type[Exception]

    def refusal(self, error: Exception) -> StoreUnavailable:
        """What the callers are told when the driver raised `error`, at a commit or before one."""
        ...

    def transaction(self) -> SqlTransaction:
        """For one use case."""
        ...

    def forget(self) -> None:
        """Drop whatever the session remembers of the database."""
        ...

    def begin(self) -> None: ...

    def commit(self) -> None: ...

    def rollback(self) -> None:
        """May be called when no transaction is open, and when the connection is broken."""
        ...

    def savepoint(self) -> None: ...

    def rollback_to_savepoint(self) -> None: ...


class _DirtyFailure(Exception):
    """A use case failed after it had written."""


# After these, the batch is not run again.
_FINAL: Final = (OutcomeUnknown, StoreDamaged)


def run_batch(session: WriteSession, use_cases: Sequence[UseCase[Any]]) -> BatchResult:
    """Run and commit all. Every use case has an outcome; only committed events are returned."""
    for run_one in (_run_bare, _run_in_savepoint):
        try:
            session.begin()
            result = _run_all(session, use_cases, run_one)
            session.commit()
        except _DirtyFailure:
            session.rollback()
        except (session.driver_error, MemoryError) as error:
            refusal = session.refusal(error)
            session.rollback()
            if run_one is _run_in_savepoint or isinstance(refusal, _FINAL):
                return _all_refused(refusal, len(use_cases))
        except BaseException:
            session.rollback()
            raise
        else:
            return result
    raise AssertionError("the second try undoes each failure by itself")


RunOne = Callable[[WriteSession, SqlTransaction, UseCase[Any]], Outcome]


def _run_all(
    session: WriteSession, use_cases: Sequence[UseCase[Any]], run_one: RunOne
) -> BatchResult:
    outcomes: list[Outcome] = []
    events: list[Event] = []
    measurements: list[Measurement] = []
    for use_case in use_cases:
        tx = session.transaction()
        outcome = run_one(session, tx, use_case)
        outcomes.append(outcome)
        if outcome.error is None:
            events += tx.events
            measurements += tx.measurements
        elif tx.wrote:
            session.forget()  # the rollback to the savepoint undid some of it
    return BatchResult(outcomes, events, measurements)


def _run_bare(session: WriteSession, tx: SqlTransaction, use_case: UseCase[Any]) -> Outcome:
    try:
        return Outcome(use_case(tx))
    except (session.driver_error, MemoryError) as error:
        if isinstance(session.refusal(error), StoreDamaged):
            raise
        raise _DirtyFailure from error
    except Exception as error:
        if tx.wrote:
            raise _DirtyFailure from error
        return Outcome(error=error)


def _run_in_savepoint(session: WriteSession, tx: SqlTransaction, use_case: UseCase[Any]) -> Outcome:
    session.savepoint()
    try:
        return Outcome(use_case(tx))
    except (session.driver_error, MemoryError) as error:
        refusal = session.refusal(error)
        if isinstance(refusal, StoreDamaged):
            raise
        try:
            session.rollback_to_savepoint()
        except session.driver_error:
            # A full disk or a lost connection undoes the whole batch. This error is the cause.
            raise error from None
        return Outcome(error=refusal)
    except Exception as error:  # noqa: BLE001 (any error of a use case is its outcome)
        session.rollback_to_savepoint()
        return Outcome(error=error)


def _all_refused(refusal: StoreUnavailable, count: int) -> BatchResult:
    return BatchResult([Outcome(error=refusal) for _ in range(count)], [])


def nothing_changed(error: Exception) -> StoreUnavailable:
    reason = str(error) or type(error).__name__
    refusal = StoreUnavailable(
        f"the database refused the change: {reason}",
        hint="nothing was changed; send the same report again",
    )
    refusal.__cause__ = error
    return refusal
