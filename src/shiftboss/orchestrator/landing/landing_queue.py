"""Bringing accepted work to its target branch, in the order of the dependencies.

A piece of work that does not fit any more goes back to a worker, as a task of its own.
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
from shiftboss.orchestrator.git.repository import GitRepo
from shiftboss.orchestrator.landing.landing import (
    AcceptedWork,
    ConflictAuthors,
    Landed,
    LandedWork,
    Landing,
    LandingConflict,
    LandingRefused,
)
from shiftboss.orchestrator.run.plan_branches import path_of
from shiftboss.orchestrator.run.plan_status import PlanStatus
from shiftboss.orchestrator.run.run_context import RunContext
from shiftboss.protocol.handoffs import VerificationPolicy
from shiftboss.protocol.verdicts import Waiver
from shiftboss.rules.runs.merge_tasks import (
    is_merge,
    merge_description,
    merge_under_way,
    next_merge,
    original_of,
)

PUT_OFFS_MAX: Final = 3
_UNDER_WAY: Final = ("open", "queued", "active", "failed")


class LandingQueue:
    """`stuck` has what cannot land now, and why; `hopeless` are those that people have to look
    at. With `only`, other tasks are left alone."""

    def __init__(
        self, run: RunContext, landing: Landing, only: frozenset[str] = frozenset()
    ) -> None:
        self._run = run
        self._landing = landing
        self._only = only
        self._landed: list[LandedWork] = []
        self._put_offs: Counter[str] = Counter()
        self.stuck: dict[str, str] = {}
        self.hopeless: set[str] = set()

    async def land_all(self, plan_status: PlanStatus) -> bool:
        """Everything that can land now. Whether anything has changed."""
        by_repo: dict[str, list[dict[str, Any]]] = {}
        for one in plan_status.landable.values():
            if self._run.knows(one["bead_id"]) and one["target"]:
                by_repo.setdefault(one["repo"], []).append(one)
        if by_repo:
            self._landed = await self._landed_work(plan_status)
        changed = await asyncio.gather(
            *(self._land_in(works, plan_status) for works in by_repo.values())
        )
        return any(changed)

    async def _landed_work(self, plan_status: PlanStatus) -> list[LandedWork]:
        """Whose commits are on the targets already: a conflict names them."""
        return [
            LandedWork(one["commit"], one["bead_id"], one["receipt_id"])
            for one in await self._run.client.all_of("list_receipts", "receipts")
            if one["swarm_id"] == self._run.client.swarm_id
            and plan_status.has_landed(one["bead_id"])
        ]

    async def _land_in(self, works: list[dict[str, Any]], plan_status: PlanStatus) -> bool:
        """One after the other: each changes what the next has to fit on. Merge tasks come first,
        for they bring along what could not land by itself."""
        changed = False
        for one in sorted(works, key=lambda one: not is_merge(one["bead_id"])):
            if self._may_land(one, plan_status):
                changed = await self._land(one, plan_status) or changed
        return changed

    def _may_land(self, one: dict[str, Any], plan_status: PlanStatus) -> bool:
        if self._only and original_of(one["bead_id"]) not in self._only:
            return False
        if not is_merge(one["bead_id"]) and merge_under_way(
            one["bead_id"], plan_status.statuses(self._run.plan.attempts)
        ):
            return False
        return all(plan_status.has_landed(before) for before in one["depends_on"])

    async def _land(self, one: dict[str, Any], plan_status: PlanStatus) -> bool:
        bead_id = one["bead_id"]
        self._run.progress.accepted(bead_id, one["receipt_id"])
        self._run.progress.stage(bead_id, "landing")
        contract = await self._run.client.call("show_handoff", bead_id=bead_id)
        self._run.progress.waived(bead_id, contract["waivers"])
        try:
            outcome = await self._landing.land(_wanted(one, contract["waivers"], self._landed))
        except (TreeUnavailable, EvidenceUnavailable) as error:
            self._put_off(bead_id, error)
            return False
        match outcome:
            case Landed():
                await self._tell(one, outcome)
            case LandingConflict():
                others = [_side(side) for side in outcome.others]
                await self._merge_task(one, plan_status, outcome.paths, others, "")
            case LandingRefused() if outcome.check is not None:
                output = f"{outcome.check}\n{outcome.output_tail}"
                await self._merge_task(one, plan_status, [], [], output)
            case LandingRefused():
                self._stick(bead_id, f"{outcome.reason}; {outcome.hint}")
                return False
        return True

    async def _tell(self, one: dict[str, Any], landed: Landed) -> None:
        bead_id = one["bead_id"]
        self.stuck.pop(bead_id, None)
        await self._run.client.call(
            "report_landed",
            bead_id=bead_id,
            commit=one["commit"],
            target=one["target"],
            landed_commit=landed.commit,
        )
        self._run.progress.row(bead_id).landed = landed.commit
        self._run.progress.stage(bead_id, "landed")
        self._run.progress.say(bead_id, f"landed on {one['target']} as {landed.commit[:12]}")
        if landed.warning:
            self._run.progress.say(bead_id, landed.warning)

    async def _merge_task(
        self,
        one: dict[str, Any],
        plan_status: PlanStatus,
        paths: list[str],
        others: list[str],
        output: str,
    ) -> None:
        """A worker brings the two sides together. What it may change is what the work may change,
        and the files in conflict."""
        bead_id = one["bead_id"]
        name = next_merge(bead_id, plan_status.statuses(self._run.plan.attempts))
        if name is None:
            self.hopeless.add(bead_id)
            self._stick(bead_id, "it was merged too often and does not fit: look at it")
            await self._call_off_merges(bead_id, plan_status)
            return
        what = "is in conflict with" if paths else "fails on"
        self._run.progress.say(bead_id, f"{what} {one['target']}; {name} brings them together")
        title = f"Merge: {one['title']}"[:500]
        try:
            await self._run.client.call(
                "add_task",
                bead_id=name,
                title=title,
                description=merge_description(one["commit"], one["target"], paths, others, output),
                priority=100,
            )
        except TaskExists:
            pass
        await self._spawn_merge(one, name, title, paths)

    async def _call_off_merges(self, bead_id: str, plan_status: PlanStatus) -> None:
        """Nobody is to work on what is not wanted any more."""
        for name, view in plan_status.views.items():
            if is_merge(name) and original_of(name) == bead_id and view["status"] in _UNDER_WAY:
                await self._run.client.call("cancel_task", bead_id=name)

    async def land_lost(self, plan_status: PlanStatus) -> bool:
        """Work that has landed and is not on its target any more, because somebody moved that
        branch, is landed again. Whether there was any."""
        lost = False
        for work in await self._landed_work(plan_status):
            if not self._run.knows(work.bead_id) or work.bead_id in self.stuck:
                continue
            view = await self._run.client.call("show_handoff", bead_id=work.bead_id)
            if view["target"] is None or await self._is_there(view, work.commit):
                continue
            lost = True
            self._run.progress.say(
                work.bead_id, f"{view['target']} has lost {work.commit[:12]}; landing it again"
            )
            await self._land_again(view, work)
        return lost

    async def _is_there(self, view: dict[str, Any], commit: str) -> bool:
        repo = await GitRepo.at(Path(view["repo"]))
        tip = await repo.branch_tip(view["target"])
        known = await repo.commit_of(commit)
        return tip is not None and known is not None and await repo.has(known, tip)

    async def _land_again(self, view: dict[str, Any], work: LandedWork) -> None:
        one = {
            **{name: view[name] for name in ("bead_id", "repo", "branch", "target", "policy")},
            "title": work.bead_id,
            "commit": work.commit,
            "receipt_id": work.receipt_id,
            "success_criteria": view["handoff"]["contract"]["success_criteria"],
        }
        try:
            outcome = await self._landing.land(_wanted(one, view["waivers"], self._landed))
        except (TreeUnavailable, EvidenceUnavailable) as error:
            self._stick(work.bead_id, error.detail)
            return
        if isinstance(outcome, Landed):
            self._run.progress.say(work.bead_id, f"landed again as {outcome.commit[:12]}")
        else:
            self._stick(work.bead_id, f"{view['target']} has lost it, and it does not fit there")

    async def _spawn_merge(
        self, one: dict[str, Any], name: str, title: str, paths: list[str]
    ) -> None:
        task = self._run.task(one["bead_id"])
        repo = self._run.repo(task)
        try:
            await self._run.client.spawn(
                bead_id=name,
                files=sorted({*one["files_owned"], *paths}),
                subtask_title=title,
                success_criteria=one["success_criteria"],
                epic_summary=self._run.plan.goal,
                repo=one["repo_name"] or one["repo"],
                base=await self._run.worktrees.base_for(path_of(repo), one["target"], []),
                branch=f"shiftboss/{name}",
                target=one["target"],
                policy=one["policy"],
                submit=True,
                merges=one["bead_id"] if one["repo_name"] else None,
            )
        except HandoffExists:
            await self._run.client.call("submit_task", bead_id=name)
        except (OwnershipOverlap, RepoBlocked) as error:
            self._run.progress.say(name, f"waits: {error.detail}")

    def _put_off(self, bead_id: str, error: ShiftbossError) -> None:
        """Nobody could tell whether it fits: that may be over at the next look, or never."""
        self._put_offs[bead_id] += 1
        if self._put_offs[bead_id] >= PUT_OFFS_MAX:
            self._stick(bead_id, error.detail)
        else:
            self._run.progress.say(bead_id, f"lands later: {error.detail}")
            self._run.progress.stage(bead_id, "accepted", error.detail)

    def _stick(self, bead_id: str, reason: str) -> None:
        if self.stuck.get(bead_id) != reason:
            self.stuck[bead_id] = reason
            self._run.progress.say(bead_id, f"cannot land: {reason}")
        self._run.progress.stage(bead_id, "accepted", reason)

    async def close(self) -> None:
        try:
            await self._landing.close()
        except ShiftbossError as error:
            self._run.progress.say("", error.detail)


def _wanted(
    one: dict[str, Any], waivers: list[dict[str, Any]], landed: list[LandedWork]
) -> AcceptedWork:
    return AcceptedWork(
        bead_id=one["bead_id"],
        title=one["title"],
        repo=Path(one["repo"]),
        commit=one["commit"],
        target=one["target"],
        criteria=one["success_criteria"],
        policy=VerificationPolicy.model_validate(one["policy"]),
        receipt_id=one["receipt_id"],
        branch=one["branch"],
        waivers=[Waiver.model_validate(waiver) for waiver in waivers],
        landed=landed,
    )


def _side(side: ConflictAuthors) -> str:
    words = [f"commit {side.commit[:12]} {side.subject}"]
    words += [f"task {side.task}"] if side.task else []
    words += [f"receipt {side.receipt}"] if side.receipt else []
    return ", ".join(words)
