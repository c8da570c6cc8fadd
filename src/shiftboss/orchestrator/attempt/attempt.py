"""One attempt at one task, from the acknowledgement to its end: a work tree, an agent, a claim."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from pathlib import Path
from typing import Any, Final

from shiftboss.defaults import OUTPUT_LOG
from shiftboss.errors import Conflict, NotFound, ShiftbossError
from shiftboss.orchestrator.attempt.agent_round import (
    AgentRound,
    AttemptTotals,
    LaunchedAgent,
    RoundEnd,
)
from shiftboss.orchestrator.attempt.agent_token import (
    AgentToken,
    create_agent_token,
    revoke_agent_token,
)
from shiftboss.orchestrator.attempt.attempt_record import begin_record, end_record
from shiftboss.orchestrator.attempt.claiming import AttemptClaims, ClaimRefusal, receipt_of_agent
from shiftboss.orchestrator.attempt.parking import (
    REASON_CHARACTERS_MAX,
    park_task,
    pause_for_quota,
)
from shiftboss.orchestrator.attempt.prepare_workspace import (
    prepare_workspace,
    read_assignment,
    with_contract_in_force,
)
from shiftboss.orchestrator.attempt.questions import AttemptQuestions
from shiftboss.orchestrator.attempt.workspace import Workspace
from shiftboss.orchestrator.guardian.agent_process import AgentProcess
from shiftboss.orchestrator.run.plan_branches import UNCOMMITTED
from shiftboss.orchestrator.run.run_context import RunContext
from shiftboss.orchestrator.worktrees.salvage import salvage_worktree
from shiftboss.orchestrator.worktrees.worktree import Worktree
from shiftboss.protocol.plan import PlanTask
from shiftboss.rules.prompts.agent_prompts import RunTask, fix_prompt, run_prompt
from shiftboss.rules.tasks.waiting import cancelled_reason, reason_line
from shiftboss.system.log_subject import about
from shiftboss.worker.bus_task import FINAL_REPORT_SECONDS, BusTask, failure_reason

log = logging.getLogger(__name__)

# After this many refusals the server asks a person, and another attempt starts over.
ROUNDS_MAX: Final = 3


class Attempt:
    """`worker` is the name of the run's worker. `run` always ends the attempt: done, failed, handed
    over, parked or given back."""

    def __init__(self, run: RunContext, task: BusTask, worker: str) -> None:
        self._run = run
        self._task = task
        self._worker = worker
        self._plan_task: PlanTask = run.task(task.bead_id)
        self._settings = run.settings(self._plan_task)
        self._agent = run.agents[self._settings.kind]
        self._progress = run.progress
        self._totals = AttemptTotals()
        self._scratch: Path | None = None
        self._worktree: Worktree | None = None
        self._token: AgentToken | None = None
        self._lost = asyncio.Event()
        self._questions = AttemptQuestions(run.client, worker, task.bead_id, task.epoch)
        self._ends_at = time.monotonic() + self._plan_task.timeout
        self._loop = asyncio.get_running_loop()
        task.on_lost = self._set_lost

    def _set_lost(self) -> None:
        """Called from the heartbeat thread."""
        self._loop.call_soon_threadsafe(self._lost.set)

    def end_if(self, bead_id: str, epoch: int) -> None:
        """The server has ended an attempt. If it is this one, end its agent at once: a heartbeat
        would notice it later."""
        if (bead_id, epoch) == (self._task.bead_id, self._task.epoch):
            self._lost.set()

    def note_delivered(self, bead_id: str, epoch: int, question_id: int) -> None:
        self._questions.note_delivered(bead_id, epoch, question_id)

    async def end_if_blocked(self) -> None:
        """End the agent if it waits for an answer. The question stays open."""
        view = await self._run.client.call("show_task", bead_id=self._task.bead_id)
        if view.get("state") == "blocked":
            self._lost.set()

    async def run(self) -> None:
        swarm_id = self._run.client.swarm_id
        with about(swarm_id, self._task.bead_id, epoch=self._task.epoch, worker=self._worker):
            await self._run_to_end()

    async def _run_to_end(self) -> None:
        self._progress.stage(self._task.bead_id, "preparing", "creating a work tree")
        row = self._progress.row(self._task.bead_id)
        row.worker, row.agent = self._worker, self._settings.kind
        try:
            await self._work(await self._prepare())
        except asyncio.CancelledError:
            await self._give_back()
            raise
        except (Conflict, NotFound) as error:
            await self._ended_by_server(error.detail)
        except (ShiftbossError, OSError) as error:
            await self._fail(str(getattr(error, "detail", error)))
        except Exception as error:
            # A bug that shows up in one task must not stop the others.
            log.exception("%s", self._task.bead_id)
            await self._fail(failure_reason(error))
        finally:
            if self._scratch is not None:
                end_record(self._scratch)
            if self._token is not None:
                await asyncio.shield(revoke_agent_token(self._run.client, self._token))
            if self._worktree is not None:
                await asyncio.shield(self._remove_worktree(self._worktree))

    async def _prepare(self) -> Workspace:
        assignment = await read_assignment(self._run, self._task, self._worker, self._settings)
        self._progress.row(self._task.bead_id).attempt = assignment.attempt
        self._log(f"assigned to {self._worker}, attempt {assignment.attempt}")
        scratch = self._run.paths.scratch(assignment)
        scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._scratch = scratch
        worktree = await self._run.worktrees.create(
            assignment,
            self._run.repo(self._plan_task),
            scratch / "contract.json",
            continue_branch=self._continues_branch(),
        )
        self._worktree = worktree
        begin_record(scratch, assignment, worktree.path, self._settings)
        await self._run.branches.restore_uncommitted(worktree.path, self._task.resume_from)
        seconds = self._ends_at - time.monotonic()
        self._token = await create_agent_token(
            self._run.client, assignment.bead_id, self._worker, max(seconds, 0)
        )
        return prepare_workspace(
            self._run, assignment, worktree, scratch, self._settings, self._token.token
        )

    def _continues_branch(self) -> bool:
        """An attempt that follows one which was handed over, lost or given back continues with its
        commits. After a failure, the work starts over, and the prompt names the old commits. So it
        does after a rejected review, unless the work is squashed."""
        if (self._task.resume_from or {}).get("start_over"):
            return False
        reasons = [entry.get("reason") for entry in self._task.salvage]
        return self._task.resume_from is not None or reasons[-1:] != ["failed"]

    async def _work(self, workspace: Workspace) -> None:
        """Rounds of work and claims, until the work is accepted or the attempt has to end."""
        task = self._prompt_task(workspace)
        prompt = run_prompt(task)
        claims = AttemptClaims(self._run, self._task, workspace)
        try:
            if await claims.claim_earlier_push():
                await self._accepted(None)
                return
        except ClaimRefusal as refused:
            # An attempt that starts over has no commits to fix.
            prompt = fix_prompt(task, refused.reasons) if self._continues_branch() else prompt
        refusals = 0
        while refusals < ROUNDS_MAX:
            before = await self._run.branches.tip(workspace.assignment)
            end = await self._run_agent(workspace, prompt)
            if await self._ends_attempt(end, workspace):
                return
            answers = await self._questions.new_answers()
            if answers.texts:
                task = await with_contract_in_force(self._run, workspace, task)
            if answers.has_unread and before == await self._run.branches.tip(workspace.assignment):
                # The agent had exited before its question was answered, and has not worked yet.
                checkpoint = {**(task.checkpoint or {}), "instructions": "\n".join(answers.texts)}
                prompt = run_prompt(task._replace(checkpoint=checkpoint))
                continue
            self._progress.stage(self._task.bead_id, "verifying", "waiting for the verdict")
            try:
                receipt = await claims.claim(end.message, self._totals.dollars)
            except ClaimRefusal as refused:
                refusals += 1
                reason = refused.reasons[0].partition("\n")[0]
                self._log(f"refused: {reason}")
                prompt = fix_prompt(task, [*refused.reasons, *answers.texts])
                continue
            await self._accepted(receipt)
            return
        await self._end_refused(f"refused {ROUNDS_MAX} times: {reason}")

    async def _end_refused(self, reason: str) -> None:
        """The server has asked a person. While the plan has attempts left, another one starts over,
        and the server withdraws the question. After the last one, the task waits for the answer,
        and then starts over as well."""
        view = await self._run.client.call("show_task", bead_id=self._task.bead_id)
        is_last = view["failures"] + 1 >= self._run.plan.attempts
        if is_last and await self._questions.is_blocked():
            self._log(reason)
            await park_task(
                self._run, self._task, self._worker, reason, checkpoint={"start_over": True}
            )
            self._progress.stage(self._task.bead_id, "parked", reason)
        else:
            await self._fail(reason)

    def _prompt_task(self, workspace: Workspace) -> RunTask:
        assignment = workspace.assignment
        contract = assignment.handoff["contract"]
        assert self._worktree is not None
        left_behind = [{"ref": ref} for ref in self._worktree.salvaged]
        return RunTask(
            swarm_id=assignment.swarm_id,
            bead_id=assignment.bead_id,
            worker=self._worker,
            epoch=assignment.epoch,
            branch=assignment.branch,
            title=assignment.title,
            description=assignment.description,
            files=contract["files_owned"],
            criteria=contract["success_criteria"],
            expectations_change=assignment.expectations_change,
            speaks=self._agent.has_tools,
            claims=assignment.agent_claims,
            handoff_file=str(workspace.scratch / "handoff.json"),
            checkpoint=assignment.checkpoint,
            salvage=[*assignment.salvage, *left_behind],
        )

    async def _run_agent(self, workspace: Workspace, prompt: str) -> RoundEnd:
        number = self._totals.process + 1
        file = workspace.scratch / "prompt.md"
        if number > 1:  # keep earlier prompts for people
            file.replace(workspace.scratch / f"prompt.{number - 1}.md")
        file.write_text(prompt)
        launch = await asyncio.to_thread(
            self._agent.launch, workspace, self._settings, prompt, workspace.assignment.model
        )
        self._progress.stage(
            self._task.bead_id, "working", f"{self._settings.kind}, round {number}"
        )
        self._totals.process = number
        log_file = workspace.scratch / OUTPUT_LOG
        process = await AgentProcess.start(launch, log_file, self._run.limits)
        reader = self._agent.reader(self._settings)
        launched = LaunchedAgent(self._agent.kind, self._agent.provider, workspace.assignment.model)
        agent_round = AgentRound(
            self._run, self._task, reader, self._totals, self._lost, self._worker, launched
        )
        return await agent_round.run(process, max(self._ends_at - time.monotonic(), 1.0))

    async def _ends_attempt(self, end: RoundEnd, workspace: Workspace) -> bool:
        """Whether the attempt ends with this round, without a claim by the orchestrator. Work that
        the agent has claimed successfully is done, however its process ended."""
        receipt = await receipt_of_agent(self._run.client, self._task.bead_id, self._task.epoch)
        if receipt is not None:
            await self._accepted(receipt)
            return True
        if end.cause in ("ended", "timeout", "lost") and await self._questions.is_blocked():
            await self._park(workspace, "asked a question", None)
            return True
        match end.cause:
            case "ended" if end.ok:
                return False
            case "context":
                await self._hand_over(workspace, end)
            case "quota":
                reason, until_ms = await pause_for_quota(self._run, self._task.bead_id, end)
                await self._park(workspace, reason, until_ms)
            case "budget":
                self._log(end.message)
                await self._park(workspace, end.message, None)
            case "permission":
                self._log(f"stopped: {end.message}")
                self._task.leave()
            case "lost":
                await self._ended_by_server("the task was reassigned")
            case _:
                await self._fail(end.message or "the agent failed")
        return True

    async def _ended_by_server(self, reason: str) -> None:
        """Somebody else has decided: the task was cancelled, retried or given to another worker."""
        self._task.leave()
        view = await self._run.client.call("show_task", bead_id=self._task.bead_id)
        if view["status"] == "cancelled":
            text = reason_line(
                cancelled_reason(view["swarm_id"], view["bead_id"], view["last_error"]),
                self._run.command_place,
            )
            self._log(text)
            self._progress.stage(self._task.bead_id, "cancelled", text)
        else:
            self._log(f"attempt ended by the server: {reason}")

    async def _accepted(self, receipt: str | None) -> None:
        self._task.leave()
        if receipt is not None:
            bead_id = self._task.bead_id
            self._progress.accepted(bead_id, receipt)
            handoff = await self._run.client.call("show_handoff", bead_id=bead_id)
            self._progress.accepted_with(bead_id, handoff)

    async def _hand_over(self, workspace: Workspace, end: RoundEnd) -> None:
        """Hand the task over to a fresh process. The checkpoint is made from what can be observed:
        the agent with the full context is not asked."""
        self._log(f"handing over: {end.message}")
        checkpoint = await self._checkpoint(workspace)
        await self._task.checkpoint(
            checkpoint.pop("current_step"),
            checkpoint.pop("files_created"),
            checkpoint.pop("files_modified"),
            **checkpoint,
        )

    async def _park(self, workspace: Workspace, reason: str, until_ms: int | None) -> None:
        checkpoint = await self._checkpoint(workspace)
        await park_task(self._run, self._task, self._worker, reason, until_ms, checkpoint)
        self._progress.stage(self._task.bead_id, "parked", reason)

    async def _checkpoint(self, workspace: Workspace) -> dict[str, Any]:
        changes = await self._run.branches.changes(workspace.assignment, workspace.tree)
        assert self._worktree is not None
        uncommitted = await salvage_worktree(self._worktree)
        activity = self._totals.activity
        return {
            UNCOMMITTED: uncommitted,
            "current_step": activity[-1][:500] if activity else "working",
            "files_created": changes.created,
            "files_modified": changes.modified,
            "commits": changes.commits,
            "decisions": [text[:300] for text in activity],
        }

    async def _fail(self, reason: str) -> None:
        reason = " ".join(reason.split())[:REASON_CHARACTERS_MAX]
        self._log(f"failed: {reason}")
        self._progress.row(self._task.bead_id).error = reason
        try:
            await self._task.failed(reason)
        except (Conflict, NotFound):
            self._task.leave()

    async def _give_back(self) -> None:
        """If the server cannot be reached, the lease expires, or the next run releases the task.
        The question of a blocked agent stays open for the next run."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FINAL_REPORT_SECONDS):
                if not self._task.is_over and await self._questions.is_blocked():
                    await park_task(self._run, self._task, self._worker, "asked a question")
                elif not self._task.is_over:
                    self._task.leave()
                    # Not a reset: the server would offer the task to this worker again.
                    await self._run.client.release_files([self._worker])

    async def _remove_worktree(self, worktree: Worktree) -> None:
        try:
            await self._run.worktrees.remove(worktree)
        except (ShiftbossError, OSError) as error:
            self._log(f"its work tree stays at {worktree.path}: {error}")

    def _log(self, text: str) -> None:
        self._progress.log(self._task.bead_id, text)
