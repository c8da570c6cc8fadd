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
from shiftboss.orchestrator.run.plan_status import PlanStatus, read_book
from shiftboss.orchestrator.run.run_context import RunContext
from shiftboss.protocol.plan import PlanTask
from shiftboss.rules.plans.graph import in_order, traits_of
from shiftboss.rules.plans.schedule import priorities
from shiftboss.rules.runs.merge_tasks import is_merge


class TaskStarter:
    """`stuck` has what cannot start before people have done something, and why."""

    def __init__(self, ground: RunContext) -> None:
        self._ground = ground
        self._order = in_order(ground.plan)
        self._priorities = priorities(ground.plan)
        self._waits: dict[str, str] = {}
        self.stuck: dict[str, str] = {}

    async def announce(self) -> None:
        """Tell the server of the swarm, its budget and its tasks."""
        line, budget = self._ground.line, self._ground.plan.budget
        await line.create_swarm(self._ground.plan.goal)
        if budget.tokens is not None or budget.dollars is not None:
            await line.call("set_budget", tokens=budget.tokens, dollars=budget.dollars)
        known = (await read_book(self._ground)).views
        for task in self._order:
            self._ground.board.row(task.id, task.title)
            if task.id in known:
                await self._compare(task, known[task.id])
            else:
                await self._add(task)
            if task.budget.tokens is not None or task.budget.dollars is not None:
                await line.call(
                    "set_budget",
                    bead_id=task.id,
                    tokens=task.budget.tokens,
                    dollars=task.budget.dollars,
                )

    async def _add(self, task: PlanTask) -> None:
        await self._ground.line.call(
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
            self._ground.board.say(
                task.id,
                f"the plan has another {', '.join(changed)} now; the former is kept. "
                "For the new one, give the task another id",
            )

    async def _changed_contract(self, task: PlanTask) -> list[str]:
        try:
            view = await self._ground.line.call("show_handoff", bead_id=task.id)
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
        for bead_id, view in (await read_book(self._ground)).views.items():
            if view["status"] == "failed" and self._ground.knows(bead_id):
                try:
                    await self._ground.line.call("retry_task", bead_id=bead_id)
                except Conflict as error:
                    self._wait(bead_id, error)

    async def start_ready(self, book: PlanStatus) -> None:
        """Spawn what can start now, and try again what has failed and may."""
        for task in self._order:
            status = book.status(task.id)
            if status == "open" and task.id not in book.held and self._is_ready(task, book):
                await self._spawn(task, book)
            elif status == "failed":
                await self._retry(task.id, book)
        for bead_id, view in book.views.items():
            if is_merge(bead_id) and view["status"] == "failed":
                await self._retry(bead_id, book)

    def given_up(self, book: PlanStatus, unlandable: Collection[str] = ()) -> set[str]:
        """What nobody will finish: it has failed often enough, was cancelled, or cannot land."""
        return {
            task.id
            for task in self._order
            if not book.has_landed(task.id)
            and (task.id in unlandable or self._is_given_up(task, book))
        }

    def needs(self, book: PlanStatus, given_up: Collection[str]) -> dict[str, str]:
        """The tasks that wait for one that was given up, and for which."""
        found: dict[str, str] = {}
        for task in self._order:
            lost = [one for one in task.depends_on if one in given_up or one in found]
            if lost and task.id not in given_up and not book.has_landed(task.id):
                found[task.id] = lost[0]
        return found

    def _is_given_up(self, task: PlanTask, book: PlanStatus) -> bool:
        status = book.status(task.id)
        if status == "failed" and task.id not in book.held:
            return bool(book.views[task.id]["failures"] >= self._ground.plan.attempts)
        return status == "cancelled"

    def _is_ready(self, task: PlanTask, book: PlanStatus) -> bool:
        if self._ground.plan.auto_merge:
            return all(book.has_landed(one) for one in task.depends_on)
        return all(book.status(one) == "done" for one in task.depends_on)

    async def _spawn(self, task: PlanTask, book: PlanStatus) -> None:
        ground = self._ground
        name, repo = ground.repo_name(task), ground.repo(task)
        unlanded = [
            book.landable[one]["commit"]
            for one in task.depends_on
            if one in book.landable and ground.repo_name(ground.task(one)) == name
        ]
        try:
            target = await ground.branches.target_of(repo)
            base = await ground.trees.base_for(path_of(repo), target, unlanded)
        except MergeConflict as error:
            # Its dependencies do not fit together; when they land, that becomes a task.
            self.stuck[task.id] = f"{error.detail}; land what it depends on first"
            self._wait(task.id, error)
            return
        self.stuck.pop(task.id, None)
        try:
            await ground.line.spawn(
                bead_id=task.id,
                files=task.files_owned,
                files_readonly=task.files_readonly,
                subtask_title=task.title,
                subtask_description=task.description,
                success_criteria=task.criteria,
                dependencies_completed=task.depends_on,
                epic_summary=ground.plan.goal,
                repo=str(path_of(repo)),
                base=base,
                branch=f"shiftboss/{task.id}",
                target=target,
                strategy=task.strategy,
                traits=sorted(traits_of(ground.plan, task)),
                policy=repo.verification.model_dump(mode="json"),
                submit=True,
            )
        except HandoffExists:
            await ground.line.call("submit_task", bead_id=task.id)
        except (OwnershipOverlap, RepoBlocked, DependenciesUnfinished) as error:
            self._wait(task.id, error)
            return
        self._waits.pop(task.id, None)
        ground.board.stage(task.id, "queued")

    async def _retry(self, bead_id: str, book: PlanStatus) -> None:
        view = book.views[bead_id]
        if view["failures"] >= self._ground.plan.attempts or bead_id in book.held:
            return
        try:
            await self._ground.line.call("retry_task", bead_id=bead_id)
        except Conflict as error:
            self._wait(bead_id, error)

    def _wait(self, bead_id: str, error: Conflict) -> None:
        """Said once: it is tried again whenever something has ended."""
        reason = error.detail.removesuffix("; nothing was changed")
        self._ground.board.stage(bead_id, "waiting", reason)
        if self._waits.get(bead_id) != reason:
            self._waits[bead_id] = reason
            self._ground.board.say(bead_id, f"waits: {reason}")
