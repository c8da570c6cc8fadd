"""One round of an attempt: one process of the agent, read while it runs.

Everything here is code: no model is asked how its agent is doing.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from shiftboss.agents.agent import REFUSED
from shiftboss.agents.output_lines import brief
from shiftboss.agents.signals import (
    Allowed,
    Denied,
    Did,
    Finished,
    OutputReader,
    RateLimited,
    Signal,
    Usage,
)
from shiftboss.errors import ShiftbossError
from shiftboss.orchestrator.guardian.agent_process import AgentProcess, Exit
from shiftboss.orchestrator.run.run_context import RunContext
from shiftboss.protocol.policy import PermissionLimits
from shiftboss.rules.tasks.permission_denials import after_denial, after_success, must_end
from shiftboss.worker.bus_task import BusTask

CONTEXT_STEP: Final = 0.05
USAGE_SECONDS: Final = 3.0
TELLING_SECONDS: Final = 20.0
# How long an agent may take to end by itself: after the verdict, when some of them tell what all of
# it has cost, and after a signal.
LAST_WORDS_SECONDS: Final = 60.0
GRACE_SECONDS: Final = 10.0
WORDS_KEPT: Final = 10
OWN_DENIALS_MAX: Final = 5

Cause = Literal["ended", "context", "quota", "permission", "budget", "timeout", "lost", "denials"]


class RoundEnd(NamedTuple):
    """`cause` ended: the agent has ended by itself, well if `ok`."""

    cause: Cause
    ok: bool = True
    message: str = ""
    until: float | None = None


@dataclass(slots=True)
class Spent:
    """Of all processes of an attempt."""

    tokens: int = 0
    dollars: float = 0.0
    process: int = 0
    words: list[str] = field(default_factory=list)


class AgentRound:
    """`lost` is set when the attempt is over for the server."""

    def __init__(
        self,
        ground: RunContext,
        task: BusTask,
        reader: OutputReader,
        spent: Spent,
        lost: asyncio.Event,
        worker: str,
    ) -> None:
        self._ground = ground
        self._task = task
        self._reader = reader
        self._spent = spent
        self._lost = lost
        self._worker = worker
        self._row = ground.board.row(task.bead_id)
        self._before = (spent.tokens, spent.dollars)
        self._context = 0.0
        self._used = asyncio.Event()
        self._usage = Usage()
        self._finished: Finished | None = None
        self._own_denials = 0
        self._denials: dict[str, int] = {}

    async def run(self, process: AgentProcess, seconds: float) -> RoundEnd:
        """Until the agent ends, or has to be ended."""
        reading = asyncio.create_task(self._read(process))
        losing = asyncio.create_task(self._lost.wait())
        counting = asyncio.create_task(self._count())
        tasks = (reading, losing, counting)
        try:
            async with asyncio.timeout(seconds):
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                if reading.done():
                    return reading.result()
                if counting.done():
                    return counting.result()
                await self._let_finish(reading)
                return RoundEnd("lost", message="the attempt is over for the server")
        except TimeoutError:
            return RoundEnd("timeout", ok=False, message=f"took longer than {seconds:.0f} seconds")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await process.end(GRACE_SECONDS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TELLING_SECONDS):
                    await self._tell_usage()

    async def _let_finish(self, reading: asyncio.Task[RoundEnd]) -> None:
        """Its work may be accepted, and it says its last words."""
        if await self._is_done():
            await asyncio.wait((reading,), timeout=LAST_WORDS_SECONDS)

    async def _is_done(self) -> bool:
        view = await self._ground.line.call("show_task", bead_id=self._task.bead_id)
        return bool(view["status"] == "done")

    async def _read(self, process: AgentProcess) -> RoundEnd:
        async for line in process.lines():
            for signal in self._reader.read(line):
                end = await self._take(signal)
                if end is not None:
                    return end
        exited = await process.wait()
        for signal in self._reader.ended(exited.exit_code, process.error_tail):
            end = await self._take(signal)
            if end is not None:
                return end
        return self._judge(exited, process.error_tail)

    def _judge(self, exited: Exit, error_tail: str) -> RoundEnd:
        said = self._finished
        if exited.exit_code == 0 and (said is None or said.ok):
            return RoundEnd("ended")
        if said is not None and not said.ok and said.message:
            return RoundEnd("ended", ok=False, message=said.message)
        last = error_tail.strip().splitlines()[-1:]
        return RoundEnd("ended", ok=False, message=": ".join([exited.detail, *last]))

    async def _take(self, signal: Signal) -> RoundEnd | None:
        match signal:
            case Usage():
                return await self._take_usage(signal)
            case RateLimited():
                return RoundEnd("quota", False, signal.message, signal.until)
            case Denied():
                return await self._take_denial(signal)
            case Allowed():
                self._own_denials = 0
                self._denials = after_success(self._denials, signal.tool, signal.operation)
            case Did():
                self._row.doing = signal.text
                self._spent.words = [*self._spent.words, signal.text][-WORDS_KEPT:]
            case Finished():
                self._finished = signal
        return None

    async def _take_usage(self, usage: Usage) -> RoundEnd | None:
        self._usage = usage
        self._used.set()
        self._spent.tokens = self._before[0] + usage.input_tokens + usage.output_tokens
        self._spent.dollars = self._before[1] + (usage.dollars or 0.0)
        return await self._look_at_context(usage)

    async def _count(self) -> RoundEnd:
        """Tell the server what is used, now and then, until that is too much."""
        while True:
            await self._used.wait()
            self._used.clear()
            end = await self._tell_usage()
            if end is not None:
                return end
            await asyncio.sleep(USAGE_SECONDS)

    async def _tell_usage(self) -> RoundEnd | None:
        """The server adds up, and says when a budget is used up."""
        if self._usage == Usage():
            return None
        try:
            answer = await self._ground.line.call(
                "report_usage",
                bead_id=self._task.bead_id,
                name=self._worker,
                epoch=self._task.epoch,
                process=self._spent.process,
                input_tokens=self._usage.input_tokens,
                output_tokens=self._usage.output_tokens,
                cached_tokens=self._usage.cached_tokens,
                dollars=self._usage.dollars,
            )
        except ShiftbossError:
            return None  # the attempt is over; the heartbeats say so, too
        self._row.tokens, self._row.dollars = answer["task"]["tokens"], answer["task"]["dollars"]
        over = answer["over"]
        if over is None:
            return None
        message = f"the {over['scope']}'s budget of {over['limit']:g} {over['unit']} is used up"
        return RoundEnd("budget", False, message)

    async def _look_at_context(self, usage: Usage) -> RoundEnd | None:
        if not usage.context_tokens or not usage.context_window:
            return None
        share = min(usage.context_tokens / usage.context_window, 1.0)
        if share < self._context + CONTEXT_STEP:
            return None
        self._context = share
        try:
            answer = await self._task.heartbeat(share, self._row.doing[:500] or None)
        except ShiftbossError:
            return None
        if answer["bead_id"] != self._task.bead_id or not answer["checkpoint_requested"]:
            return None
        return RoundEnd("context", message=f"{share:.0%} of the context is in use")

    async def _take_denial(self, denied: Denied) -> RoundEnd | None:
        """The second denial of a tool in a row is the last. Those of our own hook say how to go on,
        and an agent may take some of them before it listens."""
        told = f"{denied.tool} was denied: {brief(denied.error)}"
        self._ground.board.say(self._task.bead_id, told)
        if REFUSED in denied.error:
            self._own_denials += 1
            if self._own_denials < OWN_DENIALS_MAX:
                return None
            return RoundEnd("denials", False, f"denied {self._own_denials} times: {denied.error}")
        self._denials = after_denial(self._denials, denied.tool, denied.operation)
        if not must_end(self._denials, PermissionLimits()):
            return None
        return await self._end_for_permission(denied)

    async def _end_for_permission(self, denied: Denied) -> RoundEnd | None:
        """Told as often as it happened: the server counts, ends the attempt and asks people."""
        for _ in range(PermissionLimits().max_denials):
            try:
                goes_on = await self._task.denied(
                    denied.tool, denied.error[:5000], denied.operation
                )
            except ShiftbossError as error:
                return RoundEnd("denials", False, f"{denied.tool} was denied: {error.detail}")
            if not goes_on:
                return RoundEnd("permission", False, denied.error)
        return None
