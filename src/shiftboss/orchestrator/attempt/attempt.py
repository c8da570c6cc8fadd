"""One attempt at one task, from the acknowledgement to its end: a tree, an agent, a claim."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import Any, Final

from shiftboss.errors import Conflict, NotFound, ShiftbossError
from shiftboss.orchestrator.attempt.agent_round import AgentRound, RoundEnd, Spent
from shiftboss.orchestrator.attempt.claiming import Claiming, ClaimRefusal, receipt_of_agent
from shiftboss.orchestrator.attempt.prepare_workspace import assignment_of, sit_down
from shiftboss.orchestrator.attempt.workspace import Workspace
from shiftboss.orchestrator.guardian.agent_process import AgentProcess
from shiftboss.orchestrator.run.plan_branches import UNCOMMITTED
from shiftboss.orchestrator.run.plan_status import BLOCKED, question_words
from shiftboss.orchestrator.run.run_context import RunContext
from shiftboss.orchestrator.worktrees.worktree import Worktree
from shiftboss.protocol.plan import PlanTask
from shiftboss.rules.prompts.agent_prompts import RunTask, fix_prompt, run_prompt
from shiftboss.worker.bus_task import LAST_WORD_SECONDS, BusTask, reason_of

log = logging.getLogger(__name__)

# After as many refusals the server asks people, and another attempt begins anew.
ROUNDS_MAX: Final = 3
# A quota without a time: most of them are over by then, and if not, it is asked again.
QUOTA_SECONDS: Final = 900.0
# The longest there are come back within a week.
QUOTA_SECONDS_MAX: Final = 8 * 86_400.0
REASON_CHARACTERS_MAX: Final = 2000


class Attempt:
    """`worker` is the name of the slot. `run` never leaves the task without an end: done, failed,
    handed over, parked or given back."""

    def __init__(self, ground: RunContext, task: BusTask, worker: str) -> None:
        self._ground = ground
        self._task = task
        self._worker = worker
        self._plan: PlanTask = ground.task(task.bead_id)
        self._settings = ground.settings(self._plan)
        self._agent = ground.agents[self._settings.kind]
        self._board = ground.board
        self._spent = Spent()
        self._tree: Worktree | None = None
        self._lost = asyncio.Event()
        self._ends_at = time.monotonic() + self._plan.timeout
        self._loop = asyncio.get_running_loop()
        task.on_lost = self._lose

    def _lose(self) -> None:
        """Told from the thread of the heartbeats."""
        self._loop.call_soon_threadsafe(self._lost.set)

    async def run(self) -> None:
        self._board.stage(self._task.bead_id, "preparing", "making a work tree")
        row = self._board.row(self._task.bead_id)
        row.worker, row.attempt, row.agent = self._worker, self._task.epoch, self._settings.kind
        self._say(f"given to {self._worker}, attempt {self._task.epoch}")
        tree: Worktree | None = None
        try:
            assignment = await assignment_of(self._ground, self._task, self._worker, self._settings)
            scratch = self._ground.places.scratch(assignment)
            scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
            tree = await self._ground.trees.make(
                assignment,
                self._ground.repo(self._plan),
                scratch / "contract.json",
                carry_on=self._carries_on(),
            )
            await self._ground.branches.bring_back(tree.path, self._task.resume_from)
            self._tree = tree
            await self._work(sit_down(self._ground, assignment, tree, scratch, self._settings))
        except asyncio.CancelledError:
            await self._give_back()
            raise
        except (Conflict, NotFound) as error:
            # The task was taken back while we were at it.
            self._say(f"is over: {error.detail}")
            self._task.leave()
        except (ShiftbossError, OSError) as error:
            await self._fail(str(getattr(error, "detail", error)))
        except Exception as error:
            # A mistake of ours at one task must not end the others.
            log.exception("%s", self._task.bead_id)
            await self._fail(reason_of(error))
        finally:
            if tree is not None:
                await asyncio.shield(self._leave(tree))

    def _carries_on(self) -> bool:
        """Who takes over from one that was handed over, lost or given back goes on with its
        commits. After a failure the work begins anew, and the old commits are named to it."""
        reasons = [one.get("reason") for one in self._task.salvage]
        return self._task.resume_from is not None or reasons[-1:] != ["failed"]

    async def _work(self, seat: Workspace) -> None:
        """Rounds of work and claims, until the work is accepted or the attempt has to end."""
        told = self._told(seat)
        prompt = run_prompt(told)
        claiming = Claiming(self._ground, self._task, seat)
        try:
            if await claiming.begin():
                await self._accepted(None)
                return
        except ClaimRefusal as refused:
            # Who begins anew has no commits that could be mended.
            prompt = fix_prompt(told, refused.reasons) if self._carries_on() else prompt
        for number in range(1, ROUNDS_MAX + 1):
            end = await self._round(seat, prompt, number)
            if await self._is_over(end, seat):
                return
            self._board.stage(self._task.bead_id, "verifying", "the server looks")
            try:
                receipt = await claiming.claim(end.message, self._spent.dollars)
            except ClaimRefusal as refused:
                reason = refused.reasons[0].partition("\n")[0]
                self._say(f"refused: {reason}")
                prompt = fix_prompt(told, refused.reasons)
                continue
            await self._accepted(receipt)
            return
        await self._fail(f"refused {ROUNDS_MAX} times: {reason}")

    def _told(self, seat: Workspace) -> RunTask:
        contract = seat.assignment.handoff["contract"]
        assert self._tree is not None
        left = [{"ref": ref} for ref in self._tree.salvaged]
        return RunTask(
            swarm_id=seat.assignment.swarm_id,
            bead_id=seat.assignment.bead_id,
            worker=self._worker,
            epoch=seat.assignment.epoch,
            branch=seat.assignment.branch,
            title=seat.assignment.title,
            description=seat.assignment.description,
            files=contract["files_owned"],
            criteria=contract["success_criteria"],
            speaks=self._agent.speaks,
            claims=seat.assignment.agent_claims,
            handoff_file=str(seat.scratch / "handoff.json"),
            checkpoint=seat.assignment.checkpoint,
            salvage=[*seat.assignment.salvage, *left],
        )

    async def _round(self, seat: Workspace, prompt: str, number: int) -> RoundEnd:
        file = seat.scratch / "prompt.md"
        if number > 1:  # people may want to read what the earlier ones were told
            file.replace(seat.scratch / f"prompt.{number - 1}.md")
        file.write_text(prompt)
        launch = await asyncio.to_thread(
            self._agent.launch, seat, self._settings, prompt, seat.assignment.model
        )
        self._board.stage(self._task.bead_id, "working", f"{self._settings.kind}, round {number}")
        self._spent.process = number
        process = await AgentProcess.start(launch, seat.scratch / "output.log", self._ground.limits)
        reader = self._agent.reader(self._settings)
        one = AgentRound(self._ground, self._task, reader, self._spent, self._lost, self._worker)
        return await one.run(process, max(self._ends_at - time.monotonic(), 1.0))

    async def _is_over(self, end: RoundEnd, seat: Workspace) -> bool:
        """Whether the attempt ends with this round, without a claim of ours. However the process
        ended, work that the agent has claimed with success is done."""
        receipt = await receipt_of_agent(self._ground.line, self._task.bead_id, self._task.epoch)
        if receipt is not None:
            await self._accepted(receipt)
            return True
        match end.cause:
            case "ended" if end.ok:
                return await self._has_asked()
            case "context":
                await self._hand_over(seat, end)
            case "quota":
                await self._park_for_quota(seat, end)
            case "budget":
                self._say(end.message)
                await self._park(seat, end.message, None)
            case "permission":
                self._say(f"stopped: {end.message}")
                self._task.leave()
            case "lost":
                self._say("is over: the server gave it to somebody else")
                self._task.leave()
            case _:
                await self._fail(end.message or "the agent failed")
        return True

    async def _has_asked(self) -> bool:
        """An agent that waits for an answer has ended all the same: the next attempt gets it."""
        asked = await self._ground.line.call("list_questions", only_open=True)
        mine = [one for one in asked["questions"] if one["bead_id"] == self._task.bead_id]
        view = await self._ground.line.call("show_task", bead_id=self._task.bead_id)
        if view.get("state") != "blocked" or not mine:
            return False
        words = question_words(mine[-1], self._ground.line.swarm_id)
        self._say(f"asks: {words}")
        await self._fail(f"{BLOCKED}: {words}")
        return True

    async def _accepted(self, receipt: str | None) -> None:
        self._task.leave()
        if receipt is not None:
            bead_id = self._task.bead_id
            self._board.accepted(bead_id, receipt)
            contract = await self._ground.line.call("show_handoff", bead_id=bead_id)
            self._board.waived(bead_id, contract["waivers"])

    async def _hand_over(self, seat: Workspace, end: RoundEnd) -> None:
        """To a fresh process, with what is known by looking: nobody asks the full one."""
        self._say(f"hands over: {end.message}")
        left = await self._checkpoint(seat)
        await self._task.checkpoint(
            left.pop("current_step"), left.pop("files_created"), left.pop("files_modified"), **left
        )

    async def _park_for_quota(self, seat: Workspace, end: RoundEnd) -> None:
        now = time.time()
        until_seconds = min(end.until or now + QUOTA_SECONDS, now + QUOTA_SECONDS_MAX)
        until, when = int(until_seconds * 1000), time.localtime(until_seconds)
        reason = f"quota: {end.message}"[:REASON_CHARACTERS_MAX]
        self._say(f"waits for its quota until {time.strftime('%Y-%m-%d %H:%M', when)}")
        await self._ground.line.call("pause_swarm", reason=reason, until_ms=until)
        await self._park(seat, reason, until)

    async def _park(self, seat: Workspace, reason: str, until_ms: int | None) -> None:
        await self._ground.line.call(
            "park_task",
            bead_id=self._task.bead_id,
            name=self._worker,
            epoch=self._task.epoch,
            reason=reason[:REASON_CHARACTERS_MAX],
            until_ms=until_ms,
            checkpoint=await self._checkpoint(seat),
        )
        self._task.leave()
        self._board.stage(self._task.bead_id, "parked", reason)

    async def _checkpoint(self, seat: Workspace) -> dict[str, Any]:
        left = await self._ground.branches.look(seat.assignment, seat.tree)
        assert self._tree is not None
        uncommitted = await self._ground.trees.salvage(self._tree)
        return {
            UNCOMMITTED: uncommitted,
            "current_step": self._spent.words[-1][:500] if self._spent.words else "working",
            "files_created": left.created,
            "files_modified": left.modified,
            "commits": left.commits,
            "decisions": [one[:300] for one in self._spent.words],
        }

    async def _fail(self, reason: str) -> None:
        reason = " ".join(reason.split())[:REASON_CHARACTERS_MAX]
        self._say(f"failed: {reason}")
        self._board.row(self._task.bead_id).error = reason
        try:
            await self._task.failed(reason)
        except (Conflict, NotFound):
            self._task.leave()

    async def _give_back(self) -> None:
        """If the server cannot be told, its lease runs out, or the next run says it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORD_SECONDS):
                await self._task.give_back()

    async def _leave(self, tree: Worktree) -> None:
        try:
            await self._ground.trees.remove(tree)
        except (ShiftbossError, OSError) as error:
            self._say(f"its work tree is left at {tree.path}: {error}")

    def _say(self, text: str) -> None:
        self._board.say(self._task.bead_id, text)
