"""Lands accepted work in the order of its dependencies.

Work that conflicts with its target, or fails after the merge, becomes a merge task for a worker.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any, Final

from shiftboss.errors import (
    EvidenceUnavailable,
    HandoffExists,
    OwnershipOverlap,
    RepoBlocked,
    ShiftbossError,
    TaskExists,
    TreeUnavailable,
)
from shiftboss.orchestrator.git.base_commit import base_commit
from shiftboss.orchestrator.landing.receipt_notes import note_landing
from shiftboss.orchestrator.landing.work_landing import (
    AcceptedWork,
    ConflictingCommit,
    Landed,
    LandedWork,
    LandingConflict,
    LandingRefused,
    WorkLanding,
    merges_of,
)
from shiftboss.orchestrator.run.plan_branches import repo_path
from shiftboss.orchestrator.run.plan_status import PlanStatus
from shiftboss.orchestrator.run.run_context import RunContext
from shiftboss.protocol.claims.verdicts import Waiver
from shiftboss.protocol.handoffs import VerificationPolicy
from shiftboss.rules.paths.branch_names import task_branch
from shiftboss.rules.runs.merge_tasks import (
    is_merge_active,
    is_merge_task,
    merge_description,
    next_merge_task,
    original_of,
)

POSTPONED_MAX: Final = 3
_UNFINISHED: Final = ("open", "queued", "active", "failed")
# What a handoff and accepted work have in common.
_KEPT_MEMBERS: Final = ("bead_id", "repo", "branch", "target", "policy", "landing", "base_commit")


class LandingQueue:
    """`stuck` are the tasks that cannot land now, with the reason. `unlandable` are those that a
    person has to look at. `warnings` are about tasks that have landed. With `only`, other tasks are
    left alone."""

    def __init__(
        self, run: RunContext, work_landing: WorkLanding, only: frozenset[str] = frozenset()
    ) -> None:
        self._run = run
        self._work_landing = work_landing
        self._only = only
        self._landed: list[LandedWork] = []
        self._postponed: Counter[str] = Counter()
        self.stuck: dict[str, str] = {}
        self.unlandable: set[str] = set()
        self.warnings: dict[str, str] = {}

    async def land_all(self, plan_status: PlanStatus) -> bool:
        """Land everything that can land now. Returns whether anything has changed."""
        by_repo: dict[str, list[dict[str, Any]]] = {}
        for task in plan_status.landable.values():
            if self._run.knows(task["bead_id"]) and task["target"]:
                by_repo.setdefault(task["repo"], []).append(task)
        if by_repo:
            self._landed = await self._landed_work(plan_status)
        changed = await asyncio.gather(
            *(self._land_in_repo(tasks, plan_status) for tasks in by_repo.values())
        )
        return any(changed)

    async def reland_lost(self, plan_status: PlanStatus) -> bool:
        """Land work again that is no longer on its target because somebody moved that branch.
        Returns whether there was any."""
        lost = False
        self._landed = await self._landed_work(plan_status)
        for work in self._landed:
            if not self._run.knows(work.bead_id) or work.bead_id in self.stuck:
                continue
            handoff = await self._run.client.call("show_handoff", bead_id=work.bead_id)
            if handoff["target"] is None or await self._work_landing.has_landed(
                *(Path(handoff["repo"]), handoff["target"], work.commit, handoff["landing"]),
                merges_of(work.bead_id, self._landed),
            ):
                continue
            lost = True
            self._run.progress.log(
                work.bead_id,
                f"{handoff['target']} no longer has {work.commit[:12]}; landing it again",
            )
            await self._reland(handoff, work)
        return lost

    async def close(self) -> None:
        try:
            await self._work_landing.close()
        except ShiftbossError as error:
            self._run.progress.log("", error.detail)

    async def _landed_work(self, plan_status: PlanStatus) -> list[LandedWork]:
        """The work that has landed already: the description of a conflict names it, and the squash
        of a merge task contains the work that it has merged. A task may also have receipts of
        commits that were rejected afterwards."""
        return [
            LandedWork(receipt["commit"], receipt["bead_id"], receipt["receipt_id"])
            for receipt in await self._run.client.all_of("list_receipts", "receipts")
            if receipt["swarm_id"] == self._run.client.swarm_id
            and plan_status.landed_receipt(receipt["bead_id"]) == receipt["receipt_id"]
        ]

    async def _land_in_repo(self, tasks: list[dict[str, Any]], plan_status: PlanStatus) -> bool:
        """One after the other: each landing changes the target for the next. Merge tasks come
        first, because they contain work that could not land by itself."""
        changed = False
        for task in sorted(tasks, key=lambda task: not is_merge_task(task["bead_id"])):
            if self._can_land(task, plan_status):
                changed = await self._land(task, plan_status) or changed
        return changed

    def _can_land(self, task: dict[str, Any], plan_status: PlanStatus) -> bool:
        if self._only and original_of(task["bead_id"]) not in self._only:
            return False
        if not is_merge_task(task["bead_id"]) and is_merge_active(
            task["bead_id"], plan_status.statuses(self._run.plan.attempts)
        ):
            return False
        if task.get("review") not in (None, "approved"):
            return False
        return all(plan_status.has_landed(need) for need in task["depends_on"])

    async def _land(self, task: dict[str, Any], plan_status: PlanStatus) -> bool:
        bead_id = task["bead_id"]
        self._run.progress.accepted(bead_id, task["receipt_id"])
        self._run.progress.stage(bead_id, "landing")
        handoff = await self._run.client.call("show_handoff", bead_id=bead_id)
        self._run.progress.accepted_with(bead_id, handoff)
        try:
            outcome = await self._work_landing.land(self._accepted_work(task, handoff["waivers"]))
        except (TreeUnavailable, EvidenceUnavailable) as error:
            self._postpone(bead_id, error)
            return False
        match outcome:
            case Landed():
                # Before the report: if the run is killed in between, the next one lands it again.
                warning = await self._note(task, outcome)
                await self._report_landed(task, outcome)
                self._warn(bead_id, warning)
            case LandingConflict():
                others = [_describe(commit) for commit in outcome.others]
                await self._create_merge_task(task, plan_status, outcome.paths, others, "")
            case LandingRefused() if outcome.check is not None:
                output = f"{outcome.check}\n{outcome.output_tail}"
                await self._create_merge_task(task, plan_status, [], [], output)
            case LandingRefused():
                self._set_stuck(bead_id, f"{outcome.reason}; {outcome.hint}")
                return False
        return True

    async def _report_landed(self, task: dict[str, Any], landed: Landed) -> None:
        bead_id = task["bead_id"]
        self.stuck.pop(bead_id, None)
        await self._run.client.call(
            "report_landed",
            bead_id=bead_id,
            commit=task["commit"],
            target=task["target"],
            landed_commit=landed.commit,
        )
        # The landing of a merge task is followed by that of the work that it has merged.
        self._landed.append(LandedWork(task["commit"], bead_id, task["receipt_id"]))
        self._run.progress.row(bead_id).landed = landed.commit
        self._run.progress.stage(bead_id, "landed")
        self._run.progress.log(bead_id, f"landed on {task['target']} as {landed.commit[:12]}")
        self._warn(bead_id, landed.warning)

    async def _create_merge_task(
        self,
        task: dict[str, Any],
        plan_status: PlanStatus,
        paths: list[str],
        others: list[str],
        output: str,
    ) -> None:
        """A worker merges both sides. It owns the files of the task and the files in conflict."""
        bead_id = task["bead_id"]
        merge_id = next_merge_task(bead_id, plan_status.statuses(self._run.plan.attempts))
        if merge_id is None:
            self.unlandable.add(bead_id)
            self._set_stuck(
                bead_id,
                f"it still does not merge with {task['target']} after several merge tasks; "
                "merge it by hand",
            )
            await self._cancel_merge_tasks(bead_id, plan_status)
            return
        problem = "conflicts with" if paths else "fails after the merge with"
        self._run.progress.log(bead_id, f"{problem} {task['target']}; {merge_id} merges them")
        title = f"Merge: {task['title']}"[:500]
        description = merge_description(task["commit"], task["target"], paths, others, output)
        try:
            await self._run.client.call(
                "add_task", bead_id=merge_id, title=title, description=description, priority=100
            )
        except TaskExists:
            pass
        await self._submit_merge_task(task, merge_id, title, paths)

    async def _submit_merge_task(
        self, task: dict[str, Any], merge_id: str, title: str, paths: list[str]
    ) -> None:
        planned = self._run.task(task["bead_id"])
        repo = self._run.repo(planned)
        try:
            await self._run.client.spawn(
                bead_id=merge_id,
                files=sorted({*task["files_owned"], *paths}),
                subtask_title=title,
                success_criteria=task["success_criteria"],
                epic_summary=self._run.plan.goal,
                repo=task["repo_name"] or task["repo"],
                base=await base_commit(repo_path(repo), task["target"], []),
                branch=task_branch(merge_id),
                target=task["target"],
                policy=task["policy"],
                landing=task["landing"],
                review="none" if task.get("review") is None else "required",
                held_out=self._run.held_out_of(planned),
                submit=True,
                merges=task["bead_id"] if task["repo_name"] else None,
            )
        except HandoffExists:
            await self._run.client.call("submit_task", bead_id=merge_id)
        except (OwnershipOverlap, RepoBlocked) as error:
            self._run.progress.log(merge_id, f"waiting: {error.detail}")

    async def _cancel_merge_tasks(self, bead_id: str, plan_status: PlanStatus) -> None:
        for merge_id, view in plan_status.views.items():
            if (
                is_merge_task(merge_id)
                and original_of(merge_id) == bead_id
                and view["status"] in _UNFINISHED
            ):
                await self._run.client.call("cancel_task", bead_id=merge_id)

    async def _reland(self, handoff: dict[str, Any], work: LandedWork) -> None:
        task = {
            **{name: handoff[name] for name in _KEPT_MEMBERS},
            "title": handoff["handoff"]["context"]["your_role"],
            "commit": work.commit,
            "receipt_id": work.receipt_id,
            "success_criteria": handoff["handoff"]["contract"]["success_criteria"],
        }
        try:
            outcome = await self._work_landing.land(self._accepted_work(task, handoff["waivers"]))
        except (TreeUnavailable, EvidenceUnavailable) as error:
            self._set_stuck(work.bead_id, error.detail)
            return
        if isinstance(outcome, Landed):
            self._run.progress.log(work.bead_id, f"landed again as {outcome.commit[:12]}")
            self._warn(work.bead_id, await self._note(task, outcome))
        else:
            self._set_stuck(
                work.bead_id, f"{handoff['target']} no longer has it, and it no longer merges"
            )

    def _accepted_work(self, task: dict[str, Any], waivers: list[dict[str, Any]]) -> AcceptedWork:
        return AcceptedWork(
            bead_id=task["bead_id"],
            title=task["title"],
            repo=Path(task["repo"]),
            commit=task["commit"],
            target=task["target"],
            criteria=task["success_criteria"],
            policy=VerificationPolicy.model_validate(task["policy"]),
            receipt_id=task["receipt_id"],
            branch=task["branch"],
            waivers=[Waiver.model_validate(waiver) for waiver in waivers],
            landed=self._landed,
            swarm_id=self._run.client.swarm_id,
            landing=task["landing"],
        )

    async def _note(self, task: dict[str, Any], landed: Landed) -> str:
        place = self._run.command_place
        return await note_landing(self._run.client, task, landed.commit, place)

    def _warn(self, bead_id: str, warning: str) -> None:
        if warning:
            self.warnings[original_of(bead_id)] = warning
            self._run.progress.log(bead_id, warning)

    def _postpone(self, bead_id: str, error: ShiftbossError) -> None:
        """Git or the check could not run. That may be temporary, so it is tried a few times."""
        self._postponed[bead_id] += 1
        if self._postponed[bead_id] >= POSTPONED_MAX:
            self._set_stuck(bead_id, error.detail)
        else:
            self._run.progress.log(bead_id, f"landing postponed: {error.detail}")
            self._run.progress.stage(bead_id, "accepted", error.detail)

    def _set_stuck(self, bead_id: str, reason: str) -> None:
        if self.stuck.get(bead_id) != reason:
            self.stuck[bead_id] = reason
            self._run.progress.log(bead_id, f"cannot land: {reason}")
        self._run.progress.stage(bead_id, "accepted", reason)


def _describe(commit: ConflictingCommit) -> str:
    parts = [f"commit {commit.commit[:12]} {commit.subject}"]
    parts += [f"task {commit.task}"] if commit.task else []
    parts += [f"receipt {commit.receipt}"] if commit.receipt else []
    return ", ".join(parts)
