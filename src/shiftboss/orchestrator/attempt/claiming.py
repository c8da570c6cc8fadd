"""Claims finished work on behalf of the agent, and waits for the server's verdict."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from shiftboss.client.backoff import backoff_delays
from shiftboss.errors import ContractViolations, IllegalTransition
from shiftboss.orchestrator.attempt.workspace import Workspace
from shiftboss.orchestrator.run.run_context import RunContext
from shiftboss.orchestrator.run.server_client import RunServerClient
from shiftboss.rules.claims.survivors import survivor_lines
from shiftboss.worker.bus_task import BusTask

WAIT_MS: Final = 30_000
LOG_CHARACTERS_MAX: Final = 3000


class ClaimRefusal(Exception):
    """The claim was refused; the attempt continues. `reasons` are for the agent."""

    def __init__(self, reasons: list[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


class AttemptClaims:
    """The claims of one attempt."""

    def __init__(self, run: RunContext, task: BusTask, workspace: Workspace) -> None:
        self._run = run
        self._task = task
        self._workspace = workspace
        self._policy_repo = workspace.assignment.policy_repo

    async def claim_earlier_push(self) -> bool:
        """True if the commit that an earlier attempt pushed was accepted: nothing is left to do.
        Raises ClaimRefusal if that commit was refused or failed CI."""
        if self._policy_repo is None:
            return False
        view = await self._run.client.call("show_task", bead_id=self._task.bead_id)
        if view.get("state") == "verifying":
            await self._verdict(0.0)
            return True
        try:
            await self._task.working(self._task.title)
        except IllegalTransition:
            # CI has failed, and this attempt has to fix it.
            ci = await self._run.client.call("show_ci", bead_id=self._task.bead_id)
            raise ClaimRefusal(_ci_reasons(ci)) from None
        return False

    async def claim(self, summary: str, dollars: float) -> str | None:
        """Returns the receipt. Raises ClaimRefusal, or the server's error if the task no longer
        belongs to this attempt."""
        if self._policy_repo is None:
            return await self._complete(None, summary, dollars)
        commit = await self._run.branches.tip(self._workspace.assignment)
        if commit == self._workspace.assignment.base:
            # Nothing was committed. The verdict will say so.
            return await self._complete(None, summary, dollars)
        await self._task.pushed(self._policy_repo, commit, "0")
        return await self._verdict(dollars)

    async def _verdict(self, dollars: float) -> str | None:
        """The receipt of the pushed commit. The server claims the commit itself as soon as its CI
        passes. So this looks up whether that claim was refused, and repeats it with the same
        arguments otherwise: the work is verified once, and a refusal counts once."""
        commit = await self._wait_for_ci()
        view = await self._run.client.call("show_handoff", bead_id=self._task.bead_id)
        claim = view.get("last_claim") or {}
        refused = (claim.get("state"), claim.get("epoch")) == ("refused", self._task.epoch)
        if refused and claim["commit"] == commit:
            raise ClaimRefusal(refusal_reasons(claim["verdict"] or {}) or ["the claim was refused"])
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
            raise ClaimRefusal(refusal_reasons(error.facts) or [error.detail]) from error

    async def _wait_for_ci(self) -> str | None:
        """The pushed commit, once its CI has passed. Raises ClaimRefusal if CI fails. The server
        watches CI, and the lease does not run in the meantime."""
        result = await self._task.ci_result()
        if result["state"] == "passed":
            commit: str | None = result.get("sha")
            return commit
        name = next((job["name"] for job in _failed_jobs(result)), "CI")
        await self._task.fixing(name, f"{name} did not succeed")
        raise ClaimRefusal(_ci_reasons(result))


async def receipt_of_agent(client: RunServerClient, bead_id: str, epoch: int) -> str | None:
    """The receipt, if the agent's own claim was accepted. Waits while the server verifies such a
    claim: until then it refuses another claim, a failure or a handover."""
    for pause in backoff_delays():
        if not await _is_being_verified(client, bead_id, epoch):
            break
        await asyncio.sleep(pause)
    task = await client.call("show_task", bead_id=bead_id)
    if task["status"] != "done":
        return None
    answer = await client.call("show_receipt", bead_id=bead_id)
    receipt: str = answer["signed_receipt"]["receipt"]["receipt_id"]
    return receipt


async def _is_being_verified(client: RunServerClient, bead_id: str, epoch: int) -> bool:
    claim = (await client.call("show_handoff", bead_id=bead_id))["last_claim"] or {}
    return claim.get("epoch") == epoch and claim.get("state") in ("waiting", "taken")


def _failed_jobs(result: dict[str, Any]) -> list[dict[str, Any]]:
    return [job for job in result.get("jobs", []) if job["state"] != "success"]


def _ci_reasons(result: dict[str, Any]) -> list[str]:
    reasons = [_job_text(job) for job in _failed_jobs(result)]
    return reasons or [f"CI ended with the state {result['state']}"]


def _job_text(job: dict[str, Any]) -> str:
    tail = (job.get("log_tail") or "")[-LOG_CHARACTERS_MAX:]
    return f"CI job {job['name']}: {job['state']}\n{tail}"


def refusal_reasons(verdict: Mapping[str, Any]) -> list[str]:
    """Every violation with its hint, then the end of the output of each failed check, or the
    changes that its tests do not notice."""
    reasons = []
    for violation in verdict.get("violations") or []:
        hint = f" ({violation['hint']})" if violation.get("hint") else ""
        reasons.append(f"{violation.get('check', '')}: {violation.get('message', '')}{hint}")
    for check in verdict.get("checks") or []:
        if check.get("outcome") != "failed":
            continue
        if tail := check.get("output_tail"):
            reasons.append(f"{check.get('subject')}:\n{tail[-LOG_CHARACTERS_MAX:]}")
        if survivors := survivor_lines(check):
            title = f"changes not noticed by {check.get('subject')}:"
            reasons.append("\n".join([title, *survivors]))
    return reasons
