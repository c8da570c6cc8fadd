"""The milestones that a worker reports under the completion contract."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final

from shiftboss.client.bus_client import POLL_TIMEOUT, BusClient
from shiftboss.client.http_client import new_idempotency_key
from shiftboss.errors import NotHeld

# The server wakes the poll when CI has ended; after a missed wake-up, the next check comes then.
CI_POLL_MS: Final = 5_000


class MilestoneReports(ABC):
    """The reports of one task. Each is retried until the server answers. A milestone that the state
    of the task does not allow raises IllegalTransition."""

    bead_id: str
    epoch: int
    _client: BusClient
    _worker: str
    # Pushed, and CI is not known to be red: the server finishes the task without the worker.
    _server_finishes = False

    async def working(
        self, text: str, *, decisions: Sequence[str] = (), **members: object
    ) -> dict[str, Any]:
        """Optional members: `substate`, `files_modified` with `estimated_files`. `decisions` are
        kept in the checkpoint, for a worker that continues the task."""
        self._server_finishes = False
        report = {"milestone": "WORKING", "description": text}
        return await self._report(report | members, decisions=list(decisions))

    async def pushed(
        self,
        repo: str,
        commit: str,
        ci_run: str,
        *,
        returns: dict[str, Any] | None = None,
        **members: object,
    ) -> dict[str, Any]:
        """From here on the server watches the CI of the commit: wait for `ci_result`, or leave the
        task. A worker that leaves can pass `returns` here, see `finished`."""
        report = {"milestone": "PUSHED_TO_CI", "repo": repo, "commit": commit, "ci_run": ci_run}
        answer = await self._report(report | members, returns=returns)
        self._server_finishes = True
        return answer

    async def ci_result(self) -> dict[str, Any]:
        """Wait until the CI of the pushed commit has ended. Returns `state` (passed or failed),
        `run_id` and `jobs`, of which the failed ones have the end of their logs. The task may
        already be done then: the server claims work by itself if its CI passed."""
        request = {"bead_id": self.bead_id}
        while True:
            task = await self._client.call("show_task", request)
            if (task["worker"], task["epoch"]) != (self._worker, self.epoch):
                raise NotHeld(self.bead_id, task["worker"])
            if task.get("state") != "verifying":
                result = await self._client.call("show_ci", request)
                self._server_finishes = result["state"] == "passed"
                return result
            await self._client.call(
                "poll_task", {"name": self._worker, "timeout_ms": CI_POLL_MS}, timeout=POLL_TIMEOUT
            )

    async def fixing(self, job: str, diagnosis: str, **members: object) -> dict[str, Any]:
        """Optional members: `substate`, `error_category`, `affected_files`, `attempt` with
        `max_attempts`."""
        self._server_finishes = False
        report = {"milestone": "FIXING_CI", "failed_job": job, "diagnosis": diagnosis}
        return await self._report(report | members)

    async def finished(
        self,
        repo: str,
        ci_run: str,
        *,
        sync_job: str | None = None,
        returns: dict[str, Any] | None = None,
    ) -> str | None:
        """Report DONE and return the receipt, once the server has verified the work.

        `sync_job` is the job that must have succeeded. `returns` is what the worker gives back:
        files_created, files_modified, tests_added, ci_run_id, summary. Raises ContractViolations
        if the server refuses the work; the worker still holds the task then.
        """
        report: dict[str, Any] = {"milestone": "DONE", "repo": repo, "ci_run": ci_run}
        report |= {"all_green": True}
        if sync_job is not None:
            report |= {"sync_job": sync_job, "sync_status": "success"}
        while True:
            answer = await self._report(report, returns=returns)
            if answer["status"] != "verifying":
                break
        self._end()
        receipt: str | None = answer.get("receipt_id")
        return receipt

    async def blocked(self, reason: str) -> str:
        """Ask the task's contact and wait for the answer, however long it takes."""
        answer = await self._report({"milestone": "BLOCKED", "reason": reason})
        return await self._wait_for_answer(answer["question_id"])

    async def denied(self, tool: str, error: str, operation: str | None = None) -> bool:
        """Report that a tool was denied. False: the attempt has ended; the contact was asked. True:
        the worker must neither retry nor work around it; it can stop with `blocked_permission`."""
        failure = {"tool": tool, "message": error, "operation": operation}
        answer = await self._client.call(
            "report_failure",
            self._members() | failure | {"error_type": "permission_denied"},
            key=new_idempotency_key(),
        )
        if answer["action"] != "terminate":
            return True
        self._end()
        return False

    async def blocked_permission(
        self, tool: str, error: str, operations: Sequence[str] = ()
    ) -> None:
        """Stop after a denial: the attempt ends, and the contact is asked how to continue.
        `operations` are the files and operations that were attempted."""
        report = {"milestone": "BLOCKED_PERMISSION", "tool": tool, "error": error}
        await self._report(report | {"operations": list(operations)})
        self._end()

    async def _report(self, report: dict[str, Any], **members: object) -> dict[str, Any]:
        return await self._client.call(
            "report_milestone",
            self._members() | {"report": report} | members,
            key=new_idempotency_key(),
            timeout=POLL_TIMEOUT,
        )

    @abstractmethod
    async def _wait_for_answer(self, question_id: int) -> str: ...

    @abstractmethod
    def _members(self) -> dict[str, Any]: ...

    @abstractmethod
    def _end(self) -> None: ...
