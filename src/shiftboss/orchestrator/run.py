"""Running a plan from its first task to its last landing.

It holds nothing that the server, git or the folders do not have: killed and started again, it goes
on, and repeats nothing that was accepted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from shiftboss.errors import ShiftbossError
from shiftboss.orchestrator.branches import path_of
from shiftboss.orchestrator.ground import Ground
from shiftboss.orchestrator.lander import Lander
from shiftboss.orchestrator.landing import Landing
from shiftboss.orchestrator.process import run_mark, sweep_marked
from shiftboss.orchestrator.slots import Slot, last_words, run_slots
from shiftboss.orchestrator.starting import Book, Starting, read_book
from shiftboss.worker.backoff import pauses
from shiftboss.worker.exchange import ServerUnreachable
from shiftboss.worker.swarm_events import SwarmEvents

# Events wake the run; this is for what makes none, such as a target branch that becomes free.
LOOK_SECONDS: Final = 15.0
_NEWS: Final = frozenset(
    {
        "task_done",
        "task_failed",
        "task_cancelled",
        "task_landed",
        "attempt_ended",
        "repo_released",
        "contract_changed",
        "halt_lifted",
    }
)


@dataclass(slots=True)
class Outcome:
    """`done` when everything landed, or was accepted where landing waits for a word."""

    done: bool
    landed: list[str] = field(default_factory=list)
    accepted: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    stuck: dict[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, object]:
        return asdict(self)


async def run_plan(ground: Ground) -> Outcome:
    with ground.places.held():
        await _clear_up(ground)
        starting = Starting(ground)
        await starting.announce()
        slots = [Slot(ground, number) for number in range(1, ground.plan.workers + 1)]
        for slot in slots:
            await slot.free()
        lander = Lander(ground, Landing(ground.places.landing))
        async with AsyncExitStack() as stack:
            stack.push_async_callback(lander.close)
            stack.push_async_callback(ground.trees.close)
            news = asyncio.Event()
            _background(stack, _listen(ground, news))
            working = _background(stack, run_slots(slots))
            outcome = await _until_done(ground, starting, lander, news, working)
            await last_words(slots)
            return outcome


async def _clear_up(ground: Ground) -> None:
    """What a run that was killed has left: processes, and work trees with what is in them."""
    left = await sweep_marked(run_mark(ground.places.state, ground.line.swarm_id))
    if left:
        ground.board.say("", f"ended {left} processes of an earlier run")
    repos = {path_of(repo) for repo in ground.plan.repos.values()}
    for ref in await ground.trees.sweep(repos, ground.line.swarm_id, ()):
        ground.board.say("", f"kept what was not committed as {ref}")


def _background(stack: AsyncExitStack, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    task = asyncio.create_task(work)

    async def end() -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    stack.push_async_callback(end)
    return task


async def _listen(ground: Ground, news: asyncio.Event) -> None:
    """The server may be away also before it was heard for the first time."""
    events = SwarmEvents(ground.line.server, ground.line.swarm_id, 0)
    for pause in pauses():
        try:
            async for event in events.follow():
                if event["event"] in _NEWS:
                    news.set()
        except ServerUnreachable:
            await asyncio.sleep(pause)


async def _until_done(
    ground: Ground,
    starting: Starting,
    lander: Lander,
    news: asyncio.Event,
    working: asyncio.Task[None],
) -> Outcome:
    while True:
        news.clear()
        book = await read_book(ground)
        if ground.plan.auto_merge and await lander.land_all(book):
            book = await read_book(ground)
        await starting.start_ready(book)
        outcome = _outcome(ground, starting, lander, book)
        if _is_over(outcome, await read_book(ground)):
            return outcome
        waiting = asyncio.create_task(news.wait())
        await asyncio.wait((waiting, working), timeout=LOOK_SECONDS, return_when="FIRST_COMPLETED")
        waiting.cancel()
        if working.done():
            working.result()
            raise ShiftbossError("the workers of the run have ended")


def _outcome(ground: Ground, starting: Starting, lander: Lander, book: Book) -> Outcome:
    found = Outcome(done=False, stuck={**book.held, **lander.stuck})
    hopeless = starting.hopeless(book, lander.hopeless)
    for task in ground.plan.tasks:
        if book.has_landed(task.id):
            found.landed.append(task.id)
        elif task.id in hopeless:
            found.failed.append(task.id)
            ground.board.stage(task.id, "failed")
        elif book.status(task.id) == "done" and not ground.plan.auto_merge:
            found.accepted.append(task.id)
        else:
            found.waiting.append(task.id)
    found.done = not found.failed and not found.waiting
    return found


def _is_over(outcome: Outcome, book: Book) -> bool:
    """Also when nobody works, and what is left waits for people."""
    return outcome.done or not outcome.waiting or bool(outcome.stuck and not book.is_busy)


def landing_outcome(ground: Ground, lander: Lander, book: Book, only: Collection[str]) -> Outcome:
    """Of `shiftboss land`: what is accepted and not landed has failed to land."""
    wanted = [one.id for one in ground.plan.tasks if not only or one.id in only]
    landed = [one for one in wanted if book.has_landed(one)]
    failed = [one for one in wanted if one in book.landable]
    waiting = [one for one in wanted if one not in landed and one not in failed]
    return Outcome(
        done=not failed, landed=landed, failed=failed, waiting=waiting, stuck=dict(lander.stuck)
    )
