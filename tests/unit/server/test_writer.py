"""The writing thread, with batches that need no database."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from shiftboss.errors import StoreDamaged, StoreUnavailable, VerificationPending
from shiftboss.protocol.events import Event
from shiftboss.store import group_writer as writing
from shiftboss.store.batches import BatchResult, Outcome
from shiftboss.store.group_writer import BATCH_MAX, GroupWriter
from shiftboss.store.port import UseCase
from tests.waiting import eventually

pytestmark = pytest.mark.anyio

WAIT_SECONDS = 10


class Batches:
    """Runs batches by calling each use case without a transaction; can be held."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.events: list[Event] = []
        self.entered = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()

    def __call__(self, use_cases: Sequence[UseCase[Any]]) -> BatchResult:
        self.entered.set()
        assert self.go_on.wait(WAIT_SECONDS)
        self.sizes.append(len(use_cases))
        return BatchResult([_outcome(use_case) for use_case in use_cases], self.events)

    async def hold(self, writer: GroupWriter) -> asyncio.Future[Any]:
        """Keep the thread busy with one write, so that the next ones pile up behind it."""
        self.go_on.clear()
        first = writer.submit(gives("first"), "p")
        await asyncio.to_thread(self.entered.wait, WAIT_SECONDS)
        return first


def _outcome(use_case: UseCase[Any]) -> Outcome:
    try:
        return Outcome(use_case(None))  # type: ignore[arg-type]
    except ValueError as error:
        return Outcome(error=error)


def gives(value: object) -> UseCase[Any]:
    return lambda _: value


def notes(value: object, into: list[Any]) -> UseCase[Any]:
    return lambda _: into.append(value)


def fails(_: object) -> None:
    raise ValueError("by a rule")


@asynccontextmanager
async def writer_on(
    run_batch: Callable[[Sequence[UseCase[Any]]], BatchResult],
    on_commit: Callable[[list[Event]], None] = lambda _: None,
    probe: Callable[[], StoreUnavailable | None] = lambda: None,
) -> AsyncIterator[GroupWriter]:
    writer = GroupWriter("test-writer", run_batch, on_commit, probe)
    try:
        yield writer
    finally:
        await writer.close()


async def test_each_caller_gets_its_own_answer() -> None:
    async with writer_on(Batches()) as writer:
        answers = [writer.submit(gives(number), "p") for number in range(5)]
        failing = writer.submit(fails, "p")
        assert await asyncio.gather(*answers) == [0, 1, 2, 3, 4]
        with pytest.raises(ValueError, match="by a rule"):
            await failing


async def test_writes_submitted_while_a_batch_runs_share_the_next() -> None:
    batches = Batches()
    async with writer_on(batches) as writer:
        first = await batches.hold(writer)
        later = []
        for number in range(20):
            later.append(writer.submit(gives(number), "p"))
            await asyncio.sleep(0)
        batches.go_on.set()
        assert await first == "first"
        assert await asyncio.gather(*later) == list(range(20))
    assert batches.sizes == [1, 20]


async def test_a_batch_has_a_limit_and_the_order_is_kept_beyond_it() -> None:
    batches = Batches()
    ran: list[int] = []
    async with writer_on(batches) as writer:
        first = await batches.hold(writer)
        count = 2 * BATCH_MAX + 1
        later = [writer.submit(notes(number, ran), "p") for number in range(count)]
        batches.go_on.set()
        await asyncio.gather(first, *later)
    assert batches.sizes == [1, BATCH_MAX, BATCH_MAX, 1]
    assert ran == list(range(count))


async def test_a_batch_runs_by_partition_and_within_one_by_arrival() -> None:
    ran: list[str] = []
    async with writer_on(Batches()) as writer:
        names = ["b1", "a1", "b2", "c1", "a2"]
        await asyncio.gather(*(writer.submit(notes(name, ran), name[0]) for name in names))
    assert ran == ["a1", "a2", "b1", "b2", "c1"]


async def test_too_many_waiting_writes_are_refused_until_some_are_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writing, "WAITING_MAX", 3)
    batches = Batches()
    async with writer_on(batches) as writer:
        taken = [await batches.hold(writer)]
        taken += [writer.submit(gives(number), "p") for number in range(2)]
        with pytest.raises(StoreUnavailable):
            writer.submit(gives("one too many"), "p")
        batches.go_on.set()
        await asyncio.gather(*taken)
        assert await writer.submit(gives("room again"), "p") == "room again"


async def test_closing_finishes_what_was_submitted_and_then_refuses() -> None:
    batches = Batches()
    async with writer_on(batches) as writer:
        taken = [await batches.hold(writer)]
        taken += [writer.submit(gives(number), "p") for number in range(3)]
        closing = asyncio.create_task(writer.close())
        await asyncio.sleep(0)
        with pytest.raises(StoreUnavailable):
            writer.submit(gives("too late"), "p")
        assert not any(answer.done() for answer in taken)
        batches.go_on.set()
        await closing
        assert [answer.result() for answer in taken] == ["first", 0, 1, 2]
    assert not [thread for thread in threading.enumerate() if thread.name == "test-writer"]


async def test_a_cancelled_caller_stops_neither_its_write_nor_the_others() -> None:
    batches = Batches()
    ran: list[str] = []
    async with writer_on(batches) as writer:
        first = await batches.hold(writer)
        gone = writer.submit(notes("gone", ran), "p")
        stays = writer.submit(notes("stays", ran), "p")
        gone.cancel()
        batches.go_on.set()
        await asyncio.gather(first, stays)
    assert ran == ["gone", "stays"]
    assert gone.cancelled()


async def test_a_failing_batch_fails_its_callers_and_the_thread_continues() -> None:
    broken = [True]

    def run_batch(use_cases: Sequence[UseCase[Any]]) -> BatchResult:
        if broken.pop():
            broken.append(False)
            raise RuntimeError("a mistake")
        return BatchResult([Outcome(value="fine") for _ in use_cases], [])

    async with writer_on(run_batch) as writer:
        answers = await asyncio.gather(
            *(writer.submit(gives(1), "p") for _ in range(2)), return_exceptions=True
        )
        assert [type(answer) for answer in answers] == [RuntimeError, RuntimeError]
        assert await writer.submit(gives(1), "p") == "fine"


async def test_the_listener_is_called_on_the_loop_before_the_answers() -> None:
    batches = Batches()
    batches.events = [Event("s", 1, "progress_update", 0, "{}")]
    calls: list[tuple[list[Event], bool, int]] = []
    async with writer_on(
        batches, lambda events: calls.append((events, answer.done(), threading.get_ident()))
    ) as writer:
        answer = writer.submit(gives(1), "p")
        await answer
    assert calls == [(batches.events, False, threading.get_ident())]


async def test_a_lone_write_is_answered_early_on_the_writer_thread() -> None:
    async with writer_on(Batches()) as writer:
        answer = writer.submit(gives("alone"), "p")
        heard: list[tuple[str, bool, bool]] = []
        answer.on_commit = lambda value: heard.append(
            (value, answer.done(), threading.current_thread() is threading.main_thread())
        )
        assert await answer == "alone"
    assert heard == [("alone", False, False)]


async def test_larger_batches_and_refusals_are_not_answered_early() -> None:
    heard: list[object] = []
    async with writer_on(Batches()) as writer:
        together = [writer.submit(gives(number), "p") for number in range(2)]
        for answer in together:
            answer.on_commit = heard.append
        await asyncio.gather(*together)
        refused = writer.submit(fails, "p")
        refused.on_commit = heard.append
        with pytest.raises(ValueError, match="by a rule"):
            await refused
    assert heard == []


async def test_a_failing_early_listener_does_not_prevent_the_answer() -> None:
    async with writer_on(Batches()) as writer:
        answer = writer.submit(gives("first"), "p")
        answer.on_commit = fails
        assert await answer == "first"
        assert await writer.submit(gives("second"), "p") == "second"


async def test_a_refusing_database_is_probed_until_it_accepts_writes_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writing, "PROBE_SECONDS", 0.01)
    full, probes = StoreUnavailable("the disk is full"), [0]

    def refuse(use_cases: Sequence[UseCase[Any]]) -> BatchResult:
        return BatchResult([Outcome(error=full) for _ in use_cases], [])

    def probe() -> StoreUnavailable | None:
        probes[0] += 1
        return full if probes[0] < 3 else None

    async with writer_on(refuse, probe=probe) as writer:
        with pytest.raises(StoreUnavailable):
            await writer.submit(gives(1), "p")
        await eventually(lambda: writer.failing is None, "no other write is needed")
    assert probes == [3], "a database that accepts writes is left alone"


async def test_a_write_that_changes_nothing_does_not_show_that_the_disk_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writing, "PROBE_SECONDS", 60.0)
    full = StoreUnavailable("the disk is full")
    results = [BatchResult([Outcome(error=full)], []), BatchResult([Outcome("nothing")], [])]
    async with writer_on(lambda _: results.pop(0), probe=lambda: full) as writer:
        with pytest.raises(StoreUnavailable):
            await writer.submit(gives(1), "p")
        assert await writer.submit(gives(2), "p") == "nothing"
        assert writer.failing is full


async def test_a_damaged_database_is_not_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "PROBE_SECONDS", 0.001)
    damaged = StoreDamaged("a page is rotten")
    probes: list[int] = []

    def refuse(use_cases: Sequence[UseCase[Any]]) -> BatchResult:
        return BatchResult([Outcome(error=damaged) for _ in use_cases], [])

    def probe() -> None:
        probes.append(1)

    async with writer_on(refuse, probe=probe) as writer:
        for _ in range(20):
            with pytest.raises(StoreDamaged):
                await writer.submit(gives(1), "p")
        assert writer.failing is damaged
    assert not probes


async def test_a_refusal_by_a_rule_says_nothing_about_the_database() -> None:
    def pending(_: object) -> None:
        raise VerificationPending("t")

    def run_batch(use_cases: Sequence[UseCase[Any]]) -> BatchResult:
        return BatchResult([Outcome(error=VerificationPending("t")) for _ in use_cases], [])

    async with writer_on(run_batch) as writer:
        with pytest.raises(VerificationPending):
            await writer.submit(pending, "p")
        assert writer.failing is None
