"""What a worker reports under the completion contract."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Final

from shiftboss.client.bus_client import POLL_TIMEOUT, BusClient, report_key
from shiftboss.errors import NotHeld

# The server wakes a poll with the news; this is how long one that slipped through goes unheard.
NEWS_MS: Final = 5_000


class MilestoneReports(ABC):
    """Of one task. Every report is said again until the server answers; one that makes no sense
    where the task stands raises IllegalTransition."""

    bead_id: str
    epoch: int
    _line: BusClient
    _worker: str
    # Pushed, and CI not known to be red: to leave the task now is not to give it up.
    _is_with_server = False

    async def working(self, text: str, **members: object) -> dict[str, Any]:
        """`substate`, `files_modified` with `estimated_files`."""
        self._is_with_server = False
        return await self._report({"milestone": "WORKING", "description": text} | members)

    async def pushed(
        self,
        repo: str,
        commit: str,
        ci_run: str,
        *,
        returns: dict[str, Any] | None = None,
        **members: object,
    ) -> dict[str, Any]:
        """From here on the server follows the CI of the commit: wait for `ci_result`, or leave.
        Who leaves can give `returns` along, see `finished`."""
        said = {"milestone": "PUSHED_TO_CI", "repo": repo, "commit": commit, "ci_run": ci_run}
        answer = await self._report(said | members, returns=returns)
        self._is_with_server = True
        return answer

    async def ci_result(self) -> dict[str, Any]:
        """`state` (passed or failed), `run_id` and `jobs` of the pushed commit, once CI has ended;
        jobs that failed with the end of their logs. Work that has passed may be done by then: the
        server claims it by itself."""
        about = {"bead_id": self.bead_id}
        while True:
            task = await self._line.call("show_task", about)
            if (task["worker"], task["epoch"]) != (self._worker, self.epoch):
                raise NotHeld(self.bead_id, task["worker"])
            if task.get("state") != "verifying":
                result = await self._line.call("show_ci", about)
                self._is_with_server = result["state"] == "passed"
                return result
            await self._line.call(
                "poll_task", {"name": self._worker, "timeout_ms": NEWS_MS}, timeout=POLL_TIMEOUT
            )

    async def fixing(self, job: str, diagnosis: str, **members: object) -> dict[str, Any]:
        """`substate`, `error_category`, `affected_files`, `attempt` with `max_attempts`."""
        self._is_with_server = False
        said = {"milestone": "FIXING_CI", "failed_job": job, "diagnosis": diagnosis}
        return await self._report(said | members)

    async def finished(
        self,
        repo: str,
        ci_run: str,
        *,
        sync_job: str | None = None,
        returns: dict[str, Any] | None = None,
    ) -> str | None:
        """DONE: the receipt, once the server has proven it. `sync_job` is the job that must have
        succeeded, `returns` what the worker gives back: files_created, files_modified,
        tests_added, ci_run_id, summary. Raises ContractViolations for what is not proven; the
        task is still this worker's then."""
        said: dict[str, Any] = {"milestone": "DONE", "repo": repo, "ci_run": ci_run}
        said |= {"all_green": True}
        if sync_job is not None:
            said |= {"sync_job": sync_job, "sync_status": "success"}
        while True:
            answer = await self._report(said, returns=returns)
            if answer["status"] != "verifying":
                break
        self._end()
        receipt: str | None = answer.get("receipt_id")
        return receipt

    async def blocked(self, reason: str) -> str:
        """Ask the task's contact and wait for the answer, however long it takes."""
        asked = await self._report({"milestone": "BLOCKED", "reason": reason})
        return await self._answer_to(asked["question_id"])

    async def denied(self, tool: str, error: str, operation: str | None = None) -> bool:
        """A tool was denied. False: it is over, the worker has to stop; the operator is asked."""
        said = {"tool": tool, "message": error, "operation": operation}
        answer = await self._line.call(
            "report_failure",
            self._members() | said | {"error_type": "permission_denied"},
            key=report_key(),
        )
        if answer["action"] != "terminate":
            return True
        self._end()
        return False

    async def _report(self, report: dict[str, Any], **members: object) -> dict[str, Any]:
        return await self._line.call(
            "report_milestone",
            self._members() | {"report": report} | members,
            key=report_key(),
            timeout=POLL_TIMEOUT,
        )

    @abstractmethod
    async def _answer_to(self, question_id: int) -> str: ...

    @abstractmethod
    def _members(self) -> dict[str, Any]: ...

    @abstractmethod
    def _end(self) -> None: ...
