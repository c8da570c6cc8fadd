"""Claiming that work is done, on behalf of an agent that has ended: the server looks at it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from shiftboss.client.backoff import pauses
from shiftboss.errors import ContractViolations, IllegalTransition
from shiftboss.orchestrator.attempt.workspace import Workspace
from shiftboss.orchestrator.run.run_context import RunContext
from shiftboss.orchestrator.run.server_client import RunServerClient
from shiftboss.worker.bus_task import BusTask

WAIT_MS: Final = 30_000
LOG_CHARACTERS_MAX: Final = 3000


class ClaimRefusal(Exception):
    """The work is not proven; the task is still ours. `reasons` are for the agent."""

    def __init__(self, reasons: list[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


class Claiming:
    def __init__(self, run: RunContext, task: BusTask, workspace: Workspace) -> None:
        self._run = run
        self._task = task
        self._workspace = workspace
        self._policy_repo = workspace.assignment.policy_repo

    async def begin(self) -> bool:
        """True: what an attempt before this one had pushed is accepted, and nothing is left to do.
        Raises Refusal for what was found wrong with it."""
        if self._policy_repo is None:
            return False
        view = await self._run.client.call("show_task", bead_id=self._task.bead_id)
        if view.get("state") == "verifying":
            await self._verdict(0.0)
            return True
        try:
            await self._task.working(self._task.title)
        except IllegalTransition:
            # Its CI has failed, which is for this attempt to mend.
            known = await self._run.client.call("show_ci", bead_id=self._task.bead_id)
            raise ClaimRefusal(_ci_reasons(known)) from None
        return False

    async def claim(self, summary: str, dollars: float) -> str | None:
        """The receipt. Raises Refusal, and what the server says when the task is not ours."""
        if self._policy_repo is None:
            return await self._complete(None, summary, dollars)
        commit = await self._run.branches.tip(self._workspace.assignment)
        if commit == self._workspace.assignment.base:
            # Nothing was committed: the claim will say so.
            return await self._complete(None, summary, dollars)
        await self._task.pushed(self._policy_repo, commit, "0")
        return await self._verdict(dollars)

    async def _verdict(self, dollars: float) -> str | None:
        """What became of the commit that was pushed. When its CI passes the server claims it by
        itself, so the words here are those of that claim, and a refusal of it is looked up: nobody
        looks twice, and it counts once."""
        commit = await self._passed()
        view = await self._run.client.call("show_handoff", bead_id=self._task.bead_id)
        last = view.get("last_claim") or {}
        refused = (last.get("state"), last.get("epoch")) == ("refused", self._task.epoch)
        if refused and last["commit"] == commit:
            raise ClaimRefusal(_reasons(last["verdict"] or {}) or ["the claim was refused"])
        return await self._complete(commit, "", dollars)

    async def _complete(self, commit: str | None, summary: str, dollars: float) -> str | None:
        try:
            while True:
                answer = await self._run.client.call(
                    "swarm_complete",
                    wait_seconds=WAIT_MS / 1000,
                    bead_id=self._task.bead_id,
                    name=self._workspace.assignment.worker,
                    epoch=self._workspace.assignment.epoch,
                    commit=commit,
                    summary=summary,
                    cost=dollars or None,
                    wait_ms=WAIT_MS,
                )
                if answer["status"] != "verifying":
                    receipt: str | None = answer.get("receipt_id")
                    return receipt
        except ContractViolations as error:
            raise ClaimRefusal(_reasons(error.facts) or [error.detail]) from error

    async def _passed(self) -> str | None:
        """The pushed commit, once its CI has passed. The server follows it; the lease does not run
        meanwhile."""
        result = await self._task.ci_result()
        if result["state"] == "passed":
            commit: str | None = result.get("sha")
            return commit
        name = next((job["name"] for job in _failed(result)), "CI")
        await self._task.fixing(name, f"{name} did not succeed")
        raise ClaimRefusal(_ci_reasons(result))


def _failed(result: dict[str, Any]) -> list[dict[str, Any]]:
    return [job for job in result.get("jobs", []) if job["state"] != "success"]


def _ci_reasons(result: dict[str, Any]) -> list[str]:
    return [_job_words(job) for job in _failed(result)] or [f"CI ended {result['state']}"]


def _job_words(job: dict[str, Any]) -> str:
    tail = (job.get("log_tail") or "")[-LOG_CHARACTERS_MAX:]
    return f"CI job {job['name']}: {job['state']}\n{tail}"


def _reasons(verdict: Mapping[str, Any]) -> list[str]:
    """Every violation with its hint, and the end of the output of what failed."""
    found = []
    for one in verdict.get("violations") or []:
        hint = f" ({one['hint']})" if one.get("hint") else ""
        found.append(f"{one.get('check', '')}: {one.get('message', '')}{hint}")
    found += [
        f"{check.get('subject')}:\n{check['output_tail'][-LOG_CHARACTERS_MAX:]}"
        for check in verdict.get("checks") or []
        if check.get("outcome") == "failed" and check.get("output_tail")
    ]
    return found


# What became of a claim that an agent has made by itself, while its process ran.


async def receipt_of_agent(client: RunServerClient, bead_id: str, epoch: int) -> str | None:
    """The receipt, if the work is accepted. While the server still looks at a claim of the attempt
    it is waited for: another claim, a failure or a handover would be refused until then."""
    for pause in pauses():
        if not await _is_being_verified(client, bead_id, epoch):
            break
        await asyncio.sleep(pause)
    task = await client.call("show_task", bead_id=bead_id)
    if task["status"] != "done":
        return None
    shown = await client.call("show_receipt", bead_id=bead_id)
    receipt: str = shown["signed_receipt"]["receipt"]["receipt_id"]
    return receipt


async def _is_being_verified(client: RunServerClient, bead_id: str, epoch: int) -> bool:
    claim = (await client.call("show_handoff", bead_id=bead_id))["last_claim"] or {}
    return claim.get("epoch") == epoch and claim.get("state") in ("waiting", "taken")
