"""Which tasks may start, and giving them to the server: their contracts, in the order of the plan.

The server decides who works on what; here it is only said what there is to do.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from shiftboss.errors import (
    Conflict,
    DependenciesUnfinished,
    HandoffExists,
    MergeConflict,
    OwnershipOverlap,
    RepoBlocked,
    UnknownHandoff,
)
from shiftboss.orchestrator.run.plan_branches import path_of
from shiftboss.orchestrator.run.plan_status import PlanStatus, read_plan_status
from shiftboss.orchestrator.run.run_context import RunContext
from shiftboss.protocol.plan import PlanTask
from shiftboss.rules.plans.graph import in_order, traits_of
from shiftboss.rules.plans.schedule import priorities
from shiftboss.rules.runs.merge_tasks import is_merge


class TaskStarter:
    """`stuck` has what cannot start before people have done something, and why."""

    def __init__(self, run: RunContext) -> None:
        self._run = run
        self._order = in_order(run.plan)
        self._priorities = priorities(run.plan)
        self._waits: dict[str, str] = {}
        self.stuck: dict[str, str] = {}

    async def announce(self) -> None:
        """Tell the server of the swarm, its budget and its tasks."""
        client, budget = self._run.client, self._run.plan.budget
        await client.create_swarm(self._run.plan.goal)
        if budget.tokens is not None or budget.dollars is not None:
            await client.call("set_budget", tokens=budget.tokens, dollars=budget.dollars)
        known = (await read_plan_status(self._run)).views
        for task in self._order:
            self._run.progress.row(task.id, task.title)
            if task.id in known:
                await self._compare(task, known[task.id])
            else:
                await self._add(task)
            if task.budget.tokens is not None or task.budget.dollars is not None:
                await client.call(
                    "set_budget",
                    bead_id=task.id,
                    tokens=task.budget.tokens,
                    dollars=task.budget.dollars,
                )

    async def _add(self, task: PlanTask) -> None:
        await self._run.client.call(
            "add_task",
            bead_id=task.id,
            title=task.title,
            description=task.description,
            priority=self._priorities[task.id],
            depends_on=task.depends_on,
        )

    async def _compare(self, task: PlanTask, known: dict[str, Any]) -> None:
        """A plan may grow. What was told to the server stays as it was told: work may have begun
        by it, or be proven by it."""
        changed = [
            name
            for name, value in (("title", task.title), ("description", task.description))
            if known[name] != value
        ]
        if sorted(known["depends_on"]) != sorted(set(task.depends_on)):
            changed.append("depends_on")
        if known["status"] != "open":
            changed += await self._changed_contract(task)
        if changed:
            self._run.progress.say(
                task.id,
                f"the plan has another {', '.join(changed)} now; the former is kept. "
                "For the new one, give the task another id",
            )

    async def _changed_contract(self, task: PlanTask) -> list[str]:
        try:
            view = await self._run.client.call("show_handoff", bead_id=task.id)
        except UnknownHandoff:
            return []
        contract = view["handoff"]["contract"]
        changed = []
        if not set(task.files_owned) <= set(contract["files_owned"]):
            changed.append("files_owned")
        if task.criteria and task.criteria != contract["success_criteria"]:
            changed.append("criteria")
        return changed

    async def try_failed_again(self) -> None:
        """What was given up gets one attempt more."""
        for bead_id, view in (await read_plan_status(self._run)).views.items():
            if view["status"] == "failed" and self._run.knows(bead_id):
                try:
                    await self._run.client.call("retry_task", bead_id=bead_id)
                except Conflict as error:
                    self._wait(bead_id, error)

    async def start_ready(self, plan_status: PlanStatus) -> None:
        """Spawn what can start now, and try again what has failed and may."""
        for task in self._order:
            status = plan_status.status(task.id)
            if (
                status == "open"
                and task.id not in plan_status.held
                and self._is_ready(task, plan_status)
            ):
                await self._spawn(task, plan_status)
            elif status == "failed":
                await self._retry(task.id, plan_status)
        for bead_id, view in plan_status.views.items():
            if is_merge(bead_id) and view["status"] == "failed":
                await self._retry(bead_id, plan_status)

    def given_up(self, plan_status: PlanStatus, unlandable: Collection[str] = ()) -> set[str]:
        """What nobody will finish: it has failed often enough, was cancelled, or cannot land."""
        return {
            task.id
            for task in self._order
            if not plan_status.has_landed(task.id)
            and (task.id in unlandable or self._is_given_up(task, plan_status))
        }

    def needs(self, plan_status: PlanStatus, given_up: Collection[str]) -> dict[str, str]:
        """The tasks that wait for one that was given up, and for which."""
        found: dict[str, str] = {}
        for task in self._order:
            lost = [one for one in task.depends_on if one in given_up or one in found]
            if lost and task.id not in given_up and not plan_status.has_landed(task.id):
                found[task.id] = lost[0]
        return found

    def _is_given_up(self, task: PlanTask, plan_status: PlanStatus) -> bool:
        status = plan_status.status(task.id)
        if status == "failed" and task.id not in plan_status.held:
            return bool(plan_status.views[task.id]["failures"] >= self._run.plan.attempts)
        return status == "cancelled"

    def _is_ready(self, task: PlanTask, plan_status: PlanStatus) -> bool:
        if self._run.plan.auto_merge:
            return all(plan_status.has_landed(one) for one in task.depends_on)
        return all(plan_status.status(one) == "done" for one in task.depends_on)

    async def _spawn(self, task: PlanTask, plan_status: PlanStatus) -> None:
        run = self._run
        name, repo = run.repo_name(task), run.repo(task)
        unlanded = [
            plan_status.landable[one]["commit"]
            for one in task.depends_on
            if one in plan_status.landable and run.repo_name(run.task(one)) == name
        ]
        try:
            target = await run.branches.target_of(repo)
            base = await run.worktrees.base_for(path_of(repo), target, unlanded)
        except MergeConflict as error:
            # Its dependencies do not fit together; when they land, that becomes a task.
            self.stuck[task.id] = f"{error.detail}; land what it depends on first"
            self._wait(task.id, error)
            return
        self.stuck.pop(task.id, None)
        try:
            await run.client.spawn(
                bead_id=task.id,
                files=task.files_owned,
                files_readonly=task.files_readonly,
                subtask_title=task.title,
                subtask_description=task.description,
                success_criteria=task.criteria,
                dependencies_completed=task.depends_on,
                epic_summary=run.plan.goal,
                repo=str(path_of(repo)),
                base=base,
                branch=f"shiftboss/{task.id}",
                target=target,
                strategy=task.strategy,
                traits=sorted(traits_of(run.plan, task)),
                policy=repo.verification.model_dump(mode="json"),
                submit=True,
            )
        except HandoffExists:
            await run.client.call("submit_task", bead_id=task.id)
        except (OwnershipOverlap, RepoBlocked, DependenciesUnfinished) as error:
            self._wait(task.id, error)
            return
        self._waits.pop(task.id, None)
        run.progress.stage(task.id, "queued")

    async def _retry(self, bead_id: str, plan_status: PlanStatus) -> None:
        view = plan_status.views[bead_id]
        if view["failures"] >= self._run.plan.attempts or bead_id in plan_status.held:
            return
        try:
            await self._run.client.call("retry_task", bead_id=bead_id)
        except Conflict as error:
            self._wait(bead_id, error)

    def _wait(self, bead_id: str, error: Conflict) -> None:
        """Said once: it is tried again whenever something has ended."""
        reason = error.detail.removesuffix("; nothing was changed")
        self._run.progress.stage(bead_id, "waiting", reason)
        if self._waits.get(bead_id) != reason:
            self._waits[bead_id] = reason
            self._run.progress.say(bead_id, f"waits: {reason}")
