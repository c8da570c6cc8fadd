"""Running a plan from its first task to its last landing.

It holds nothing that the server, git or the folders do not have: killed and started again, it goes
on, and repeats nothing that was accepted.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Collection, Coroutine
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from shiftboss.client.backoff import pauses
from shiftboss.client.errors import ServerUnreachable
from shiftboss.client.swarm_events import SwarmEvents
from shiftboss.errors import ShiftbossError, UnknownSwarm, UnknownWorker
from shiftboss.orchestrator.attempt.attempt import Attempt
from shiftboss.orchestrator.guardian.agent_process import run_mark, sweep_marked
from shiftboss.orchestrator.landing.landing import Landing
from shiftboss.orchestrator.landing.landing_queue import LandingQueue
from shiftboss.orchestrator.run.plan_branches import path_of
from shiftboss.orchestrator.run.plan_status import PlanStatus, read_book
from shiftboss.orchestrator.run.progress import Progress
from shiftboss.orchestrator.run.run_context import RunContext
from shiftboss.orchestrator.run.task_starter import TaskStarter
from shiftboss.worker.bus_worker import BusWorker

# The workers of a run: each takes a task, sees it through, and takes the next.


HEARTBEAT_SECONDS: Final = 15.0
_NAME_CHARACTERS: Final = 50


def slot_name(swarm_id: str, number: int) -> str:
    """A worker's name is shorter than that of a swarm may be."""
    name = "".join(one if one.isalnum() or one in "._-" else "-" for one in swarm_id)
    if len(name) > _NAME_CHARACTERS:
        digest = hashlib.sha256(swarm_id.encode()).hexdigest()[:8]
        name = f"{name[: _NAME_CHARACTERS - 9]}-{digest}"
    return f"{name.lstrip('._-') or 'run'}-{number}"


class RunWorker:
    def __init__(self, ground: RunContext, number: int) -> None:
        self._ground = ground
        self.name = slot_name(ground.line.swarm_id, number)
        self.is_idle = asyncio.Event()
        self.is_idle.set()

    async def free(self) -> None:
        """What a former run had in hand goes back to the queue."""
        try:
            await self._ground.line.call("reset_worker", worker_name=self.name)
        except (UnknownWorker, UnknownSwarm):
            pass

    async def run(self) -> None:
        server = self._ground.line.server
        async with BusWorker(
            self.name,
            server=server.address,
            token=server.token,
            swarm_id=self._ground.line.swarm_id,
            heartbeat_seconds=HEARTBEAT_SECONDS,
        ) as worker:
            async for task in worker.tasks():
                if not self._ground.knows(task.bead_id):
                    await task.failed("the plan of this run has no such task")
                    continue
                self.is_idle.clear()
                try:
                    await Attempt(self._ground, task, self.name).run()
                finally:
                    self.is_idle.set()


async def run_slots(slots: list[RunWorker]) -> None:
    """Until it is cancelled; then every agent is ended, and its task given back."""
    tasks = [asyncio.create_task(slot.run()) for slot in slots]
    try:
        # Not `gather`: it would cancel them too, and the second time cuts off the giving back.
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def last_words(slots: list[RunWorker]) -> None:
    """Until no agent runs. Work lands as soon as it is accepted, and its agent may still say what
    it has done and what that has cost; how long it may take is limited by its round."""
    await asyncio.gather(*(slot.is_idle.wait() for slot in slots))


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
        "question_asked",
        "question_answered",
        "dispatch_paused",
        "dispatch_resumed",
        "budget_exceeded",
    }
)


@dataclass(slots=True)
class RunOutcome:
    """`done` when everything landed, or was accepted where landing waits for a word."""

    done: bool
    landed: list[str] = field(default_factory=list)
    accepted: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    stuck: dict[str, str] = field(default_factory=dict)
    stopped: bool = False

    @classmethod
    def of_stopped(cls, board: Progress) -> RunOutcome:
        """What is known when a signal came first."""
        found = cls(done=False, stopped=True)
        lists = {"landed": found.landed, "accepted": found.accepted, "failed": found.failed}
        for row in board.rows.values():
            lists.get(row.stage, found.waiting).append(row.bead_id)
        return found

    def as_json(self) -> dict[str, object]:
        return asdict(self)


async def run_plan(ground: RunContext, *, retry: bool = False) -> RunOutcome:
    """With `retry`, what an earlier run has given up gets one attempt more."""
    with ground.places.held():
        await _clear_up(ground)
        starting = TaskStarter(ground)
        await starting.announce()
        if retry:
            await starting.try_failed_again()
        slots = [RunWorker(ground, number) for number in range(1, ground.plan.workers + 1)]
        for slot in slots:
            await slot.free()
        lander = LandingQueue(ground, Landing(ground.places.landing))
        async with AsyncExitStack() as stack:
            stack.push_async_callback(lander.close)
            stack.push_async_callback(ground.trees.close)
            news = asyncio.Event()
            _background(stack, _listen(ground, news))
            working = _background(stack, run_slots(slots))
            outcome = await _until_done(ground, starting, lander, news, working)
            await last_words(slots)
            return outcome


async def _clear_up(ground: RunContext) -> None:
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


async def _listen(ground: RunContext, news: asyncio.Event) -> None:
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
    ground: RunContext,
    starting: TaskStarter,
    lander: LandingQueue,
    news: asyncio.Event,
    working: asyncio.Task[None],
) -> RunOutcome:
    while True:
        news.clear()
        book = await read_book(ground)
        if ground.plan.auto_merge and await lander.land_all(book):
            book = await read_book(ground)
        await starting.start_ready(book)
        outcome = _outcome(ground, starting, lander, book)
        later = await read_book(ground)
        if is_over(outcome, book, later) and not await lander.land_lost(book):
            return outcome
        if later.progress != book.progress:
            continue
        waiting = asyncio.create_task(news.wait())
        await asyncio.wait((waiting, working), timeout=LOOK_SECONDS, return_when="FIRST_COMPLETED")
        waiting.cancel()
        if working.done():
            working.result()
            raise ShiftbossError("the workers of the run have ended")


def _outcome(
    ground: RunContext, starting: TaskStarter, lander: LandingQueue, book: PlanStatus
) -> RunOutcome:
    given_up = starting.given_up(book, lander.hopeless)
    needs = starting.needs(book, given_up)
    stuck = {bead_id: f"needs {one}" for bead_id, one in needs.items()}
    found = RunOutcome(done=False, stuck={**stuck, **starting.stuck, **book.held, **lander.stuck})
    for task in ground.plan.tasks:
        if book.has_landed(task.id) and task.id not in lander.stuck:
            found.landed.append(task.id)
        elif task.id in given_up:
            found.failed.append(task.id)
            ground.board.stage(task.id, "failed")
            row = ground.board.row(task.id)
            row.error = row.error or book.views[task.id]["last_error"]
        elif book.status(task.id) == "done" and not ground.plan.auto_merge:
            found.accepted.append(task.id)
        else:
            found.waiting.append(task.id)
    found.done = not found.failed and not found.waiting
    return found


def is_over(outcome: RunOutcome, book: PlanStatus, later: PlanStatus) -> bool:
    """Also when nobody works, and what is left waits for people or for what was given up; but not
    when somebody has ended since the outcome was read off the book: that work has to land, or to be
    tried again."""
    if outcome.done or not outcome.waiting:
        return True
    return bool(outcome.stuck) and not later.is_busy and later.progress == book.progress


def landing_outcome(
    ground: RunContext, lander: LandingQueue, book: PlanStatus, only: Collection[str]
) -> RunOutcome:
    """Of `shiftboss land`: what is accepted and not landed has failed to land."""
    wanted = [one.id for one in ground.plan.tasks if not only or one.id in only]
    landed = [one for one in wanted if book.has_landed(one)]
    failed = [one for one in wanted if one in book.landable]
    waiting = [one for one in wanted if one not in landed and one not in failed]
    return RunOutcome(
        done=not failed, landed=landed, failed=failed, waiting=waiting, stuck=dict(lander.stuck)
    )
