"""Which tasks may start, and giving them to the server: their contracts, in the order of the plan.

The server decides who works on what; here it is only said what there is to do.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from shiftboss.errors import (
    Conflict,
    DependenciesUnfinished,
    HandoffExists,
    OwnershipOverlap,
    RepoBlocked,
)
from shiftboss.orchestrator.branches import path_of
from shiftboss.orchestrator.ground import Ground
from shiftboss.protocol.plan import PlanTask
from shiftboss.rules.merge_tasks import is_merge
from shiftboss.rules.plan_graph import in_order, traits_of
from shiftboss.rules.plan_priorities import priorities

PAGE = 500
# What the server calls an attempt that may not use its tools; people have to say how to go on.
BLOCKED_PERMISSION = "BLOCKED_PERMISSION"


class Book(NamedTuple):
    """What the server says of all tasks of the swarm; `landable` are those that are accepted and
    have not landed, in the order of their acceptance. `held` are those that wait for people, with
    the reason: a budget that is used up, or a tool that an agent may not use."""

    views: Mapping[str, dict[str, Any]]
    landable: Mapping[str, dict[str, Any]]
    held: Mapping[str, str]

    def status(self, bead_id: str) -> str:
        view = self.views.get(bead_id)
        return view["status"] if view is not None else "missing"

    def has_landed(self, bead_id: str) -> bool:
        view = self.views.get(bead_id)
        return view is not None and view.get("landed_commit") is not None

    @property
    def statuses(self) -> dict[str, str]:
        return {bead_id: view["status"] for bead_id, view in self.views.items()}

    @property
    def is_busy(self) -> bool:
        """Whether somebody works, or will without anybody's doing."""
        return any(
            view["status"] == "active" or (view["status"] == "queued" and bead_id not in self.held)
            for bead_id, view in self.views.items()
        )


async def read_book(ground: Ground) -> Book:
    views = await _all(ground, "list_tasks")
    return Book(views, await _all(ground, "list_landable"), await _held(ground, views))


async def _held(ground: Ground, views: Mapping[str, dict[str, Any]]) -> dict[str, str]:
    asked = await ground.line.call("list_questions", only_open=True)
    waiting = {one["bead_id"] for one in asked["questions"]}
    found = {
        bead_id: str(view["last_error"])
        for bead_id, view in views.items()
        if view["status"] == "failed"
        and bead_id in waiting
        and str(view["last_error"]).startswith(BLOCKED_PERMISSION)
    }
    for hold in (await ground.line.call("get_status")).get("holds") or []:
        if hold["until"] is None:
            names = [hold["bead_id"]] if hold["bead_id"] is not None else list(views)
            found |= {
                name: hold["reason"]
                for name in names
                if views[name]["status"] in ("open", "queued", "failed")
            }
    return found


async def _all(ground: Ground, operation: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    after: str | None = ""
    while after is not None:
        page = await ground.line.call(operation, after=after, limit=PAGE)
        found |= {one["bead_id"]: one for one in page["tasks"]}
        after = page["next_after"]
    return found


class Starting:
    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._order = in_order(ground.plan)
        self._priorities = priorities(ground.plan)
        self._waits: dict[str, str] = {}

    async def announce(self) -> None:
        """Tell the server of all tasks and budgets; what it knows already stays as it is."""
        line = self._ground.line
        await line.create_swarm(self._ground.plan.goal)
        budget = self._ground.plan.budget
        if budget.tokens is not None or budget.dollars is not None:
            await line.call("set_budget", tokens=budget.tokens, dollars=budget.dollars)
        for task in self._order:
            await line.call(
                "add_task",
                bead_id=task.id,
                title=task.title,
                description=task.description,
                priority=self._priorities[task.id],
                depends_on=task.depends_on,
            )
            self._ground.board.row(task.id, task.title)
            if task.budget.tokens is not None or task.budget.dollars is not None:
                await line.call(
                    "set_budget",
                    bead_id=task.id,
                    tokens=task.budget.tokens,
                    dollars=task.budget.dollars,
                )

    async def start_ready(self, book: Book) -> None:
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

    def hopeless(self, book: Book, unlandable: Collection[str] = ()) -> set[str]:
        """What nobody will finish: it has failed often enough, was cancelled, cannot land, or waits
        for one that is hopeless."""
        found = set(unlandable)
        for task in self._order:
            if not book.has_landed(task.id) and self._is_given_up(task, book, found):
                found.add(task.id)
        return found

    def _is_given_up(self, task: PlanTask, book: Book, hopeless: Collection[str]) -> bool:
        status = book.status(task.id)
        if status == "failed":
            return bool(book.views[task.id]["failures"] >= self._ground.plan.attempts)
        if status == "done":
            return False
        return status == "cancelled" or any(one in hopeless for one in task.depends_on)

    def _is_ready(self, task: PlanTask, book: Book) -> bool:
        if self._ground.plan.auto_merge:
            return all(book.has_landed(one) for one in task.depends_on)
        return all(book.status(one) == "done" for one in task.depends_on)

    async def _spawn(self, task: PlanTask, book: Book) -> None:
        ground = self._ground
        name, repo = ground.repo_name(task), ground.repo(task)
        unlanded = [
            book.landable[one]["commit"]
            for one in task.depends_on
            if one in book.landable and ground.repo_name(ground.task(one)) == name
        ]
        target = await ground.branches.target_of(repo)
        base = await ground.trees.base_for(path_of(repo), target, unlanded)
        try:
            await ground.line.call(
                "swarm_spawn_subtask",
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

    async def _retry(self, bead_id: str, book: Book) -> None:
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
