"""Runs a plan from its first task to its last landing.

All state is in the server, in git and in the folders of the run. A run that was killed continues
when it is started again, and repeats nothing that was accepted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from shiftboss.client.backoff import backoff_delays
from shiftboss.client.errors import ServerUnreachable
from shiftboss.client.swarm_events import OtherSwarms, SwarmEvents
from shiftboss.errors import ShiftbossError
from shiftboss.orchestrator.guardian.agent_process import end_run_processes, run_mark
from shiftboss.orchestrator.landing.landing_queue import LandingQueue
from shiftboss.orchestrator.landing.work_landing import WorkLanding
from shiftboss.orchestrator.run.held_tasks import HeldTasks, InlineAnswers
from shiftboss.orchestrator.run.plan_branches import repo_path
from shiftboss.orchestrator.run.plan_status import PlanStatus, read_plan_status
from shiftboss.orchestrator.run.progress import Progress
from shiftboss.orchestrator.run.run_context import RunContext
from shiftboss.orchestrator.run.run_files import keep_progress, write_run_facts
from shiftboss.orchestrator.run.run_workers import (
    RunWorker,
    release_files,
    run_workers,
    wait_until_idle,
)
from shiftboss.orchestrator.run.task_starter import TaskStarter
from shiftboss.rules.runs.merge_tasks import original_of
from shiftboss.rules.tasks.waiting import (
    cancelled_reason,
    dependency_reason,
    in_one_line,
    reason_line,
)

# Events wake the run. The poll is for changes that cause no event, such as a target branch that
# becomes free.
POLL_SECONDS: Final = 15.0
_WAKING_EVENTS: Final = frozenset(
    {
        "task_done",
        "task_failed",
        "task_cancelled",
        "task_reopened",
        "task_withdrawn",
        "task_landed",
        "attempt_ended",
        "files_released",
        "repo_released",
        "contract_changed",
        "halt_lifted",
        "question_asked",
        "question_answered",
        "dispatch_paused",
        "dispatch_resumed",
        "budget_exceeded",
        "review_requested",
        "review_approved",
        "review_rejected",
    }
)


# What a task in one of these stages is doing says why it does not continue.
_STAGES_WITH_REASON: Final = ("waiting", "parked", "blocked", "in review", "cancelled")


@dataclass(slots=True)
class RunOutcome:
    """`done` if everything has landed, or was accepted where landing is left to the user, or was
    cancelled. `held` are the waiting tasks that a person can help with one command: an answer, a
    larger budget, the end of a pause, a review. `stuck` has the reason for each task that cannot
    continue. `warnings` are about tasks that have landed, such as a receipt that was not noted."""

    done: bool
    landed: list[str] = field(default_factory=list)
    accepted: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    stuck: dict[str, str] = field(default_factory=dict)
    warnings: dict[str, str] = field(default_factory=dict)
    stopped: bool = False

    @classmethod
    def of_stopped(cls, progress: Progress) -> RunOutcome:
        """The outcome of a run that was stopped by a signal."""
        outcome = cls(done=False, stopped=True)
        by_stage = {
            "landed": outcome.landed,
            "accepted": outcome.accepted,
            "failed": outcome.failed,
            "cancelled": outcome.cancelled,
        }
        for row in progress.rows.values():
            by_stage.get(row.stage, outcome.waiting).append(row.bead_id)
            if row.stage in _STAGES_WITH_REASON and row.doing:
                outcome.stuck[row.bead_id] = row.doing
        return outcome

    def as_json(self) -> dict[str, object]:
        return asdict(self)


async def run_to_completion(
    run: RunContext, *, retry: bool = False, wait: bool = True
) -> RunOutcome:
    """With `retry`, tasks that an earlier run gave up get one more attempt. With `wait`, the run
    stays while a task waits for a person."""
    with run.paths.lock("run"):
        write_run_facts(run.paths.folder, run.plan_file, str(run.client.server.addresses))
        await _clean_up_earlier_run(run)
        task_starter = TaskStarter(run)
        await task_starter.register_tasks()
        if retry:
            await task_starter.retry_failed()
        workers = [RunWorker(run, number) for number in range(1, run.plan.workers + 1)]
        landing_queue = LandingQueue(run, WorkLanding(run.paths.landing, run.paths.state))
        async with AsyncExitStack() as stack:
            stack.push_async_callback(release_files, run, workers)
            for worker in workers:
                await worker.release_task()
            stack.push_async_callback(landing_queue.close)
            stack.push_async_callback(run.worktrees.close)
            wake_up = asyncio.Event()
            _in_background(stack, _watch_events(run, wake_up, workers))
            other_swarms = _other_swarms(run, wake_up)
            stack.push_async_callback(other_swarms.close)
            _in_background(stack, _inline_answers(run).send())
            _in_background(stack, keep_progress(run.paths.folder, run.progress))
            working = _in_background(stack, run_workers(run, workers))
            outcome = await _until_over(
                run, task_starter, landing_queue, other_swarms, wake_up, working, wait=wait
            )
            for worker in workers:
                await worker.end_if_blocked()
            await wait_until_idle(workers)
            return outcome


async def _clean_up_earlier_run(run: RunContext) -> None:
    """End the processes and remove the work trees that a killed run left behind."""
    ended = await end_run_processes(run_mark(run.paths.state, run.client.swarm_id))
    if ended:
        run.progress.log("", f"ended {ended} processes of an earlier run")
    repos = {repo_path(repo) for repo in run.plan.repos.values()}
    for ref in await run.worktrees.sweep(repos, run.client.swarm_id, ()):
        run.progress.log("", f"saved uncommitted work of an earlier run as {ref}")


def _in_background(stack: AsyncExitStack, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Start a task that is cancelled when the stack is closed."""
    task = asyncio.create_task(work)

    async def cancel() -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    stack.push_async_callback(cancel)
    return task


def _inline_answers(run: RunContext) -> InlineAnswers:
    answers = InlineAnswers(run)
    run.progress.answer = answers.submit
    return answers


async def _watch_events(
    run: RunContext, wake_up: asyncio.Event, workers: Sequence[RunWorker]
) -> None:
    """Reconnects for as long as the server is unreachable, also before the first connection."""
    events = SwarmEvents(run.client.server, run.client.swarm_id, 0)
    for pause in backoff_delays():
        try:
            async for event in events.follow():
                if event["event"] in _WAKING_EVENTS:
                    wake_up.set()
                _tell_workers(workers, event["event"], event["data"])
        except ServerUnreachable as error:
            await asyncio.sleep(pause + error.retry_after_seconds)


def _other_swarms(run: RunContext, wake_up: asyncio.Event) -> OtherSwarms:
    """Those that own files which tasks of this run wait for."""

    def wake(kind: str) -> None:
        if kind in _WAKING_EVENTS or kind == OtherSwarms.CONNECTED:
            wake_up.set()

    return OtherSwarms(run.client.server, wake)


def _tell_workers(workers: Sequence[RunWorker], kind: str, data: Mapping[str, Any]) -> None:
    for worker in workers:
        if kind == "attempt_ended":
            worker.end_if(data["bead_id"], data["epoch"])
        elif kind == "answer_delivered":
            worker.note_delivered(data["bead_id"], data["epoch"], data["question_id"])


async def _until_over(
    run: RunContext,
    task_starter: TaskStarter,
    landing_queue: LandingQueue,
    other_swarms: OtherSwarms,
    wake_up: asyncio.Event,
    working: asyncio.Task[None],
    *,
    wait: bool,
) -> RunOutcome:
    held_tasks = HeldTasks(run)
    while True:
        wake_up.clear()
        plan_status = await read_plan_status(run)
        if run.plan.auto_merge and await landing_queue.land_all(plan_status):
            plan_status = await read_plan_status(run)
        await task_starter.start_ready(plan_status)
        other_swarms.follow_only(task_starter.other_swarms)
        outcome = _outcome(run, task_starter, landing_queue, plan_status)
        held_tasks.show(plan_status)
        later = await read_plan_status(run)
        if is_over(outcome, plan_status, later, wait=wait) and not await landing_queue.reland_lost(
            plan_status
        ):
            return outcome
        if later.snapshot != plan_status.snapshot:
            continue
        waking = asyncio.create_task(wake_up.wait())
        await asyncio.wait((waking, working), timeout=POLL_SECONDS, return_when="FIRST_COMPLETED")
        waking.cancel()
        if working.done():
            working.result()
            raise ShiftbossError("the workers of the run have stopped")


def _outcome(
    run: RunContext,
    task_starter: TaskStarter,
    landing_queue: LandingQueue,
    plan_status: PlanStatus,
) -> RunOutcome:
    given_up = task_starter.given_up(plan_status, landing_queue.unlandable)
    blocked = _blocked_tasks(run, task_starter, plan_status, given_up)
    # A merge task that is held holds the task that it merges.
    held = {original_of(bead_id): text for bead_id, text in plan_status.held.items()}
    stuck = {**task_starter.stuck, **held, **blocked, **landing_queue.stuck}
    outcome = RunOutcome(done=False, stuck=stuck, warnings=landing_queue.warnings)
    for task in run.plan.tasks:
        if plan_status.has_landed(task.id) and task.id not in landing_queue.stuck:
            outcome.landed.append(task.id)
        elif plan_status.status(task.id) == "cancelled":
            outcome.cancelled.append(task.id)
            reason = plan_status.views[task.id]["last_error"]
            stuck[task.id] = reason_line(
                cancelled_reason(run.client.swarm_id, task.id, reason), run.command_place
            )
            run.progress.stage(task.id, "cancelled", stuck[task.id])
        elif task.id in given_up:
            outcome.failed.append(task.id)
            run.progress.stage(task.id, "failed")
            row = run.progress.row(task.id)
            row.error = row.error or plan_status.views[task.id]["last_error"]
        elif _is_accepted(run, task.id, plan_status):
            outcome.accepted.append(task.id)
        else:
            outcome.waiting.append(task.id)
    outcome.held = [bead_id for bead_id in outcome.waiting if bead_id in held.keys() - blocked]
    outcome.done = not outcome.failed and not outcome.waiting
    return outcome


def _is_accepted(run: RunContext, bead_id: str, plan_status: PlanStatus) -> bool:
    """Whether nothing is left to do for this run: landing is left to the user."""
    is_done = plan_status.status(bead_id) == "done" and not plan_status.is_in_review(bead_id)
    return is_done and not run.plan.auto_merge


def _blocked_tasks(
    run: RunContext, task_starter: TaskStarter, plan_status: PlanStatus, given_up: Collection[str]
) -> dict[str, str]:
    """The tasks that cannot start because of another one, each with the reason."""
    return {
        bead_id: reason_line(
            dependency_reason(run.client.swarm_id, bead_id, blocker, "cancelled"),
            run.command_place,
        )
        if plan_status.status(blocker) == "cancelled"
        else f"depends on {blocker}, which was given up"
        for bead_id, blocker in task_starter.blocked_by(plan_status, given_up).items()
    }


def is_over(
    outcome: RunOutcome, plan_status: PlanStatus, later: PlanStatus, *, wait: bool = True
) -> bool:
    """Whether nothing is left to do. The run is also over if no task is being worked on and the
    remaining ones wait for one that was given up or cancelled. While some wait for a person, it
    stays if it is to `wait`. It is not over if a task has changed since `plan_status`, from which
    the outcome was computed: that task has to land, or to be tried again."""
    if outcome.done or not outcome.waiting:
        return True
    if (wait and outcome.held) or not any(task in outcome.stuck for task in outcome.waiting):
        return False
    return not later.is_busy and later.snapshot == plan_status.snapshot


def landing_outcome(
    run: RunContext, landing_queue: LandingQueue, plan_status: PlanStatus, only: Collection[str]
) -> RunOutcome:
    """The outcome of `shiftboss land`, for all tasks or `only` those that were named."""
    selected = [task.id for task in run.plan.tasks if not only or task.id in only]
    outcome = landing_outcome_of(
        selected, run.client.swarm_id, plan_status, landing_queue.stuck, are_named=bool(only)
    )
    outcome.warnings = landing_queue.warnings
    for bead_id in outcome.landed:
        row, view = run.progress.row(bead_id), plan_status.views[bead_id]
        row.landed, row.receipt_id = view["landed_commit"], view["receipt_id"]
    return outcome


def landing_outcome_of(
    selected: Collection[str],
    swarm_id: str,
    plan_status: PlanStatus,
    stuck: Mapping[str, str],
    *,
    are_named: bool = False,
) -> RunOutcome:
    """Accepted work that has not landed has failed to land, unless it is in review. Tasks that the
    user has named are all to land, also those that are not accepted."""
    outcome = RunOutcome(done=False)
    for bead_id in selected:
        if bead_id in plan_status.held:
            outcome.stuck[bead_id] = plan_status.held[bead_id]
        if plan_status.has_landed(bead_id):
            outcome.landed.append(bead_id)
        elif plan_status.status(bead_id) == "cancelled":
            outcome.cancelled.append(bead_id)
            why = plan_status.views[bead_id].get("last_error")
            outcome.stuck[bead_id] = reason_line(cancelled_reason(swarm_id, bead_id, why))
        elif plan_status.is_in_review(bead_id):
            outcome.waiting.append(bead_id)
            outcome.held.append(bead_id)
        elif bead_id in plan_status.landable:
            outcome.failed.append(bead_id)
        else:
            outcome.waiting.append(bead_id)
            why = in_one_line("not accepted yet", f"shiftboss why {bead_id} --swarm {swarm_id}")
            outcome.stuck.setdefault(bead_id, why)
    outcome.stuck |= stuck
    # A review is still to be done before everything that was accepted has landed.
    outcome.done = not (outcome.failed or outcome.held or (are_named and outcome.waiting))
    return outcome
