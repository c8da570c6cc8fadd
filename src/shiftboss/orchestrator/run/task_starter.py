"""Registers the plan's tasks with the server, and submits those whose dependencies are met.

The server decides which worker gets which task.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from shiftboss.errors import (
    Conflict,
    DependenciesUnfinished,
    Forbidden,
    HandoffExists,
    MergeConflict,
    OwnershipOverlap,
    RepoBlocked,
    UnknownHandoff,
)
from shiftboss.orchestrator.git.base_commit import base_commit
from shiftboss.orchestrator.run.plan_branches import repo_path
from shiftboss.orchestrator.run.plan_status import PlanStatus, read_plan_status
from shiftboss.orchestrator.run.run_context import RunContext
from shiftboss.protocol.handoffs import held_out_hash
from shiftboss.protocol.plan import PlanTask
from shiftboss.rules.paths.branch_names import task_branch
from shiftboss.rules.plans.contract_changes import AgreedContract, contract_changes
from shiftboss.rules.plans.graph import policy_of, topological_order, traits_of
from shiftboss.rules.plans.schedule import priorities
from shiftboss.rules.runs.merge_tasks import is_merge_task
from shiftboss.rules.tasks.waiting import refusal_text


class TaskStarter:
    """`stuck` are the tasks that cannot start until a person does something, with the reason.
    `other_swarms` have what some tasks wait for."""

    def __init__(self, run: RunContext) -> None:
        self._run = run
        self._order = topological_order(run.plan)
        self._priorities = priorities(run.plan)
        self._reasons: dict[str, str] = {}
        self.stuck: dict[str, str] = {}
        self.other_swarms: set[str] = set()

    async def register_tasks(self) -> None:
        """Create the swarm, its budgets and its tasks. What exists already stays as it is."""
        client, budget = self._run.client, self._run.plan.budget
        await client.create_swarm(self._run.plan.goal)
        if budget.tokens is not None or budget.dollars is not None:
            await client.set_budget(tokens=budget.tokens, dollars=budget.dollars)
        if self._run.plan_file is not None:
            await client.report_run(self._run.plan_file, self._run.plan.auto_merge)
        registered = (await read_plan_status(self._run)).views
        used = {
            task["bead_id"]: task["used"] for task in await client.all_of("show_usage", "tasks")
        }
        for task in self._order:
            self._run.progress.row(task.id, task.title)
            if task.id in registered:
                self._run.progress.continue_task(registered[task.id], used.get(task.id))
                await self._report_changes(task, registered[task.id])
            else:
                await self._add(task)
            if task.budget.tokens is not None or task.budget.dollars is not None:
                await client.set_budget(
                    bead_id=task.id, tokens=task.budget.tokens, dollars=task.budget.dollars
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

    async def _report_changes(self, task: PlanTask, view: dict[str, Any]) -> None:
        """New tasks can be added to a plan. A registered task is never changed: work may have
        started with it, or may have been verified against it."""
        changed = [
            name
            for name, value in (("title", task.title), ("description", task.description))
            if view[name] != value
        ]
        if sorted(view["depends_on"]) != sorted(set(task.depends_on)):
            changed.append("depends_on")
        if view["status"] != "open":
            changed += await self._report_amendments(task)
        if changed:
            self._run.progress.log(
                task.id,
                f"{', '.join(changed)} changed in the plan; the server keeps the earlier version. "
                "To use the new version, give the task a new id",
            )

    async def _report_amendments(self, task: PlanTask) -> list[str]:
        """Log what the operator has amended. Returns the parts that were changed in the plan."""
        in_force = await self._contract(task)
        if in_force is None:
            return []
        tests = self._run.held_out.get(task.id)
        held_out = None if tests is None else held_out_hash(tests)
        first = in_force if in_force.version == 1 else await self._contract(task, version=1)
        assert first is not None, "versions are never removed"
        changes = contract_changes(task, held_out, in_force, first)
        if changes.amended:
            self._run.progress.log(
                task.id,
                f"the contract was amended: its version {in_force.version} is in force instead of "
                f"{', '.join(changes.amended)} of the plan",
            )
        return changes.in_plan

    async def _contract(self, task: PlanTask, version: int | None = None) -> AgreedContract | None:
        """Without `version`, the one in force. None if the task has no contract yet."""
        try:
            view = await self._run.client.call("show_handoff", bead_id=task.id, version=version)
        except UnknownHandoff:
            return None
        contract = view["handoff"]["contract"]
        return AgreedContract(
            version=view["version"],
            files_owned=contract["files_owned"],
            criteria=contract["success_criteria"],
            held_out=view.get("held_out"),
        )

    async def retry_failed(self) -> None:
        """Give every failed task one more attempt, however often it has failed."""
        for bead_id, view in (await read_plan_status(self._run)).views.items():
            if view["status"] == "failed" and self._run.knows(bead_id):
                await self._queue_again(bead_id)

    async def start_ready(self, plan_status: PlanStatus) -> None:
        """Submit the tasks that can start, and retry failed tasks that have attempts left."""
        self.other_swarms.clear()
        for task in self._order:
            status = plan_status.status(task.id)
            if status == "open":
                if task.id not in plan_status.held and self._is_ready(task, plan_status):
                    await self._submit(task, plan_status)
            elif status == "failed":
                await self._retry(task.id, plan_status)
        for bead_id, view in plan_status.views.items():
            if is_merge_task(bead_id) and view["status"] == "failed":
                await self._retry(bead_id, plan_status)

    def given_up(self, plan_status: PlanStatus, unlandable: Collection[str] = ()) -> set[str]:
        """The tasks that will not be finished: they have no attempts left, were cancelled, or
        cannot land."""
        return {
            task.id
            for task in self._order
            if not plan_status.has_landed(task.id)
            and (task.id in unlandable or self._is_given_up(task, plan_status))
        }

    def blocked_by(self, plan_status: PlanStatus, given_up: Collection[str]) -> dict[str, str]:
        """The tasks that depend on one that was given up, each with that dependency."""
        blocked: dict[str, str] = {}
        for task in self._order:
            lost = [need for need in task.depends_on if need in given_up or need in blocked]
            if lost and task.id not in given_up and not plan_status.has_landed(task.id):
                blocked[task.id] = lost[0]
        return blocked

    def _is_given_up(self, task: PlanTask, plan_status: PlanStatus) -> bool:
        status = plan_status.status(task.id)
        if status == "failed" and task.id not in plan_status.held:
            return bool(plan_status.views[task.id]["failures"] >= self._run.plan.attempts)
        return status == "cancelled"

    def _is_ready(self, task: PlanTask, plan_status: PlanStatus) -> bool:
        if self._run.plan.auto_merge:
            return all(plan_status.has_landed(need) for need in task.depends_on)
        return all(
            plan_status.status(need) == "done" and not plan_status.is_in_review(need)
            for need in task.depends_on
        )

    async def _submit(self, task: PlanTask, plan_status: PlanStatus) -> None:
        run = self._run
        name, repo = run.repo_name(task), run.repo(task)
        unlanded = [
            plan_status.landable[need]["commit"]
            for need in task.depends_on
            if need in plan_status.landable and run.repo_name(run.task(need)) == name
        ]
        try:
            target = await run.branches.target_of(repo)
            base = await base_commit(repo_path(repo), target, unlanded)
        except MergeConflict as error:
            # The conflict becomes a merge task when the dependencies land.
            self.stuck[task.id] = f"{error.detail}; land its dependencies first"
            self._report_waiting(task.id, error)
            return
        self.stuck.pop(task.id, None)
        try:
            await self._spawn(
                bead_id=task.id,
                files=task.files_owned,
                files_readonly=task.files_readonly,
                subtask_title=task.title,
                subtask_description=task.description,
                success_criteria=task.criteria,
                dependencies_completed=task.depends_on,
                epic_summary=run.plan.goal,
                repo=str(repo_path(repo)),
                base=base,
                branch=task_branch(task.id),
                target=target,
                strategy=task.strategy,
                traits=sorted(traits_of(run.plan, task)),
                policy=policy_of(repo, task).model_dump(mode="json"),
                landing=run.landing(task),
                review=run.review(task),
                held_out=run.held_out_of(task),
                submit=True,
            )
        except (OwnershipOverlap, RepoBlocked, DependenciesUnfinished) as error:
            self._report_waiting(task.id, error)
            return
        self._reasons.pop(task.id, None)
        run.progress.stage(task.id, "queued")

    async def _spawn(self, **members: object) -> None:
        """Give the task its contract and submit it. One that has a contract keeps it."""
        try:
            await self._run.client.spawn(**members)
        except HandoffExists:
            await self._run.client.call("submit_task", bead_id=members["bead_id"])

    async def _retry(self, bead_id: str, plan_status: PlanStatus) -> None:
        view = plan_status.views[bead_id]
        if view["failures"] >= self._run.plan.attempts or bead_id in plan_status.held:
            return
        await self._queue_again(bead_id)

    async def _queue_again(self, bead_id: str) -> None:
        try:
            await self._run.client.call("retry_task", bead_id=bead_id)
        except Forbidden:
            pass  # it was cancelled in the meantime
        except Conflict as error:
            self._report_waiting(bead_id, error)

    def _report_waiting(self, bead_id: str, error: Conflict) -> None:
        """Logged once per reason, although the task is tried again whenever another one ends."""
        self.other_swarms |= holding_swarms(error) - {self._run.client.swarm_id}
        reason = refusal_text(error, self._run.client.swarm_id, self._run.command_place)
        self._run.progress.stage(bead_id, "waiting", reason)
        if self._reasons.get(bead_id) != reason:
            self._reasons[bead_id] = reason
            self._run.progress.log(bead_id, f"waiting: {reason}")


def holding_swarms(error: Conflict) -> set[str]:
    """The swarms whose tasks own the files or the repo."""
    holders = error.facts.get("holders") or error.facts.get("blockers") or []
    assert isinstance(holders, list)
    return {holder["swarm_id"] for holder in holders if holder.get("swarm_id")}
