"""One round of an attempt: one process of the agent, whose output is read while it runs.

The decisions here are made by code. No model is asked how its agent is doing.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from shiftboss.agents.agent import REFUSED
from shiftboss.agents.output_events import (
    AgentActivity,
    Allowed,
    Denied,
    Finished,
    OutputReader,
    RateLimited,
    Signal,
    Usage,
)
from shiftboss.agents.output_lines import brief
from shiftboss.errors import InvalidRequest, ShiftbossError
from shiftboss.orchestrator.guardian.agent_process import AgentProcess, Exit
from shiftboss.orchestrator.run.run_context import RunContext
from shiftboss.protocol.policy import PermissionLimits
from shiftboss.rules.documents.wording import printable_line
from shiftboss.rules.tasks.permission_denials import after_denial, after_success, must_terminate
from shiftboss.worker.bus_task import BusTask

# A heartbeat with the context is sent each time that it has grown by this share of the window.
CONTEXT_STEP: Final = 0.05
USAGE_SECONDS: Final = 3.0
# How often the server is told what the agent does, at most.
STEP_SECONDS: Final = 5.0
STEP_CHARACTERS_MAX: Final = 200
LAST_USAGE_SECONDS: Final = 20.0
# How long an agent may take to exit: by itself after the verdict, when some agents report their
# total cost, and after SIGTERM.
EXIT_SECONDS: Final = 60.0
GRACE_SECONDS: Final = 10.0
ACTIVITY_KEPT: Final = 10
HOOK_DENIALS_MAX: Final = 5

EndCause = Literal[
    "ended", "context", "quota", "permission", "budget", "timeout", "lost", "denials"
]


class RoundEnd(NamedTuple):
    """Why a round ended. With the cause `ended`, the agent exited by itself, and `ok` says whether
    it succeeded. `until` is when a quota is available again."""

    cause: EndCause
    ok: bool = True
    message: str = ""
    until: float | None = None


@dataclass(slots=True)
class AttemptTotals:
    """Sums over all rounds of an attempt. `process` is the number of the current round, `activity`
    the last things that the agent did."""

    tokens: int = 0
    dollars: float = 0.0
    process: int = 0
    activity: list[str] = field(default_factory=list)


def step_text(doing: str) -> str:
    """What an agent does, as the server is told: one line that no terminal obeys."""
    return printable_line(doing)[:STEP_CHARACTERS_MAX]


class LaunchedAgent(NamedTuple):
    """Which agent works in the round, whose models it uses, and the model it was given."""

    kind: str
    provider: str
    model: str | None


class AgentRound:
    """`lost` is set when the server has ended the attempt."""

    def __init__(
        self,
        run: RunContext,
        task: BusTask,
        reader: OutputReader,
        totals: AttemptTotals,
        lost: asyncio.Event,
        worker: str,
        launched: LaunchedAgent,
    ) -> None:
        self._launched = launched
        self._run = run
        self._task = task
        self._reader = reader
        self._totals = totals
        self._lost = lost
        self._worker = worker
        self._row = run.progress.row(task.bead_id)
        self._earlier = (totals.tokens, totals.dollars)
        self._context_share = 0.0
        self._told_step = ""
        self._usage_changed = asyncio.Event()
        self._usage = Usage()
        self._finished: Finished | None = None
        self._hook_denials = 0
        self._denials: dict[str, int] = {}

    async def run(self, process: AgentProcess, seconds: float) -> RoundEnd:
        """Returns when the agent has exited, or had to be ended."""
        began, ended = time.monotonic(), "stopped"
        try:
            end = await self._until_end(process, seconds)
            ended = "failed" if end.cause == "ended" and not end.ok else end.cause
        finally:
            milliseconds = round((time.monotonic() - began) * 1000)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_USAGE_SECONDS):
                    await self._report_run(ended, milliseconds)
        return end

    async def _until_end(self, process: AgentProcess, seconds: float) -> RoundEnd:
        reading = asyncio.create_task(self._read(process))
        losing = asyncio.create_task(self._lost.wait())
        reporting = asyncio.create_task(self._report_usage_until_exceeded())
        telling = asyncio.create_task(self._tell_steps())
        tasks = (reading, losing, reporting, telling)
        try:
            async with asyncio.timeout(seconds):
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                if reading.done():
                    return reading.result()
                if reporting.done():
                    return reporting.result()
                await self._wait_for_exit_if_done(reading)
                return RoundEnd("lost", message="the server has ended the attempt")
        except TimeoutError:
            return RoundEnd("timeout", ok=False, message=f"took longer than {seconds:.0f} seconds")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await process.end(GRACE_SECONDS)

    async def _wait_for_exit_if_done(self, reading: asyncio.Task[RoundEnd]) -> None:
        """If the work was accepted, let the agent exit by itself, so that its cost is known."""
        if await self._is_task_done():
            await asyncio.wait((reading,), timeout=EXIT_SECONDS)

    async def _is_task_done(self) -> bool:
        view = await self._run.client.call("show_task", bead_id=self._task.bead_id)
        return bool(view["status"] == "done")

    async def _read(self, process: AgentProcess) -> RoundEnd:
        async for line in process.lines():
            for signal in self._reader.read(line):
                end = await self._handle(signal)
                if end is not None:
                    return end
        exited = await process.wait()
        for signal in self._reader.ended(exited.exit_code, process.error_tail):
            end = await self._handle(signal)
            if end is not None:
                return end
        return self._end_of_exit(exited, process.error_tail)

    def _end_of_exit(self, exited: Exit, error_tail: str) -> RoundEnd:
        finished = self._finished
        if exited.exit_code == 0 and (finished is None or finished.ok):
            return RoundEnd("ended")
        if finished is not None and not finished.ok and finished.message:
            return RoundEnd("ended", ok=False, message=finished.message)
        last_error = error_tail.strip().splitlines()[-1:]
        return RoundEnd("ended", ok=False, message=": ".join([exited.detail, *last_error]))

    async def _handle(self, signal: Signal) -> RoundEnd | None:
        match signal:
            case Usage():
                return await self._handle_usage(signal)
            case RateLimited():
                return RoundEnd("quota", False, signal.message, signal.until)
            case Denied():
                return await self._handle_denial(signal)
            case Allowed():
                self._hook_denials = 0
                self._denials = after_success(self._denials, signal.tool, signal.operation)
            case AgentActivity():
                self._row.doing = signal.text
                self._totals.activity = [*self._totals.activity, signal.text][-ACTIVITY_KEPT:]
            case Finished():
                self._finished = signal
        return None

    async def _handle_usage(self, usage: Usage) -> RoundEnd | None:
        self._usage = usage
        self._usage_changed.set()
        self._totals.tokens = self._earlier[0] + usage.input_tokens + usage.output_tokens
        self._totals.dollars = self._earlier[1] + (usage.dollars or 0.0)
        return await self._check_context(usage)

    async def _report_usage_until_exceeded(self) -> RoundEnd:
        """Returns when a budget is exhausted."""
        while True:
            await self._usage_changed.wait()
            self._usage_changed.clear()
            end = await self._report_usage()
            if end is not None:
                return end
            await asyncio.sleep(USAGE_SECONDS)

    async def _report_usage(self) -> RoundEnd | None:
        """The server adds the usage up and decides whether a budget is exhausted."""
        if self._usage == Usage():
            return None
        try:
            answer = await self._run.client.call("report_usage", **self._usage_report())
        except ShiftbossError:
            return None  # the attempt is over; the heartbeats notice it too
        self._row.tokens, self._row.dollars = answer["task"]["tokens"], answer["task"]["dollars"]
        over = answer["over"]
        if over is None:
            return None
        message = f"the {over['scope']}'s budget of {over['limit']:g} {over['unit']} is used up"
        return RoundEnd("budget", False, message)

    def _usage_report(self) -> dict[str, Any]:
        return {
            "bead_id": self._task.bead_id,
            "name": self._worker,
            "epoch": self._task.epoch,
            "process": self._totals.process,
            "input_tokens": self._usage.input_tokens,
            "output_tokens": self._usage.output_tokens,
            "cached_tokens": self._usage.cached_tokens,
            "dollars": self._usage.dollars,
        }

    async def _report_run(self, ended: str, duration_ms: int) -> None:
        """The last usage, and that the process has ended. Both count after the attempt, too."""
        run = {
            "agent": self._launched.kind,
            "provider": self._launched.provider or None,
            "model": self._launched.model,
            "duration_ms": duration_ms,
            "ended": ended,
        }
        try:
            await self._run.client.call("report_usage", **self._usage_report(), run=run)
        except InvalidRequest:
            await self._report_usage()  # the server is of a version without runs
        except ShiftbossError:
            return

    async def _check_context(self, usage: Usage) -> RoundEnd | None:
        """The server decides when the context is so full that the task is handed over."""
        if not usage.context_tokens or not usage.context_window:
            return None
        share = min(usage.context_tokens / usage.context_window, 1.0)
        if share < self._context_share + CONTEXT_STEP:
            return None
        self._context_share = share
        try:
            answer = await self._task.heartbeat(share, step_text(self._row.doing) or None)
        except ShiftbossError:
            return None
        if answer["bead_id"] != self._task.bead_id or not answer["checkpoint_requested"]:
            return None
        return RoundEnd("context", message=f"{share:.0%} of the context is in use")

    async def _tell_steps(self) -> None:
        """Tell the server now and then what the agent does, if that has changed."""
        while True:
            await asyncio.sleep(STEP_SECONDS)
            step = step_text(self._row.doing)
            if step and step != self._told_step:
                self._told_step = step
                with contextlib.suppress(ShiftbossError):  # the attempt is over, or will be
                    await self._task.heartbeat(None, step)

    async def _handle_denial(self, denied: Denied) -> RoundEnd | None:
        """A second denial of the same tool in a row ends the round. A denial by our own hook tells
        the agent what to do instead, so a few of them are allowed."""
        self._run.progress.log(
            self._task.bead_id, f"{denied.tool} was denied: {brief(denied.error)}"
        )
        if REFUSED in denied.error:
            self._hook_denials += 1
            if self._hook_denials < HOOK_DENIALS_MAX:
                return None
            return RoundEnd("denials", False, f"denied {self._hook_denials} times: {denied.error}")
        self._denials = after_denial(self._denials, denied.tool, denied.operation)
        if not must_terminate(self._denials, PermissionLimits()):
            return None
        return await self._end_for_permission(denied)

    async def _end_for_permission(self, denied: Denied) -> RoundEnd | None:
        """Report the denial as often as it happened. The server counts the reports, ends the
        attempt and asks a person."""
        for _ in range(PermissionLimits().max_denials):
            try:
                continues = await self._task.denied(
                    denied.tool, denied.error[:5000], denied.operation
                )
            except ShiftbossError as error:
                return RoundEnd("denials", False, f"{denied.tool} was denied: {error.detail}")
            if not continues:
                return RoundEnd("permission", False, denied.error)
        return None
