"""The operations of a running plan, for all clients and for the operator."""

from __future__ import annotations

from operator import attrgetter

from shiftboss.coordinator.runs.service import RunService
from shiftboss.protocol import runs as calls
from shiftboss.rules.access.roles import Permission
from shiftboss.server.operations.operation import Operation

_service = attrgetter("runs")

RUN_OPERATIONS: dict[str, Operation] = {
    "report_usage": Operation(
        calls.ReportUsageRequest,
        calls.UsageAnswer,
        RunService.report_usage,
        "Report the total usage of one process of an attempt, in tokens and dollars. The "
        "response says whether a budget is exhausted.",
        Permission.WORK,
        service=_service,
    ),
    "show_usage": Operation(
        calls.ShowUsageRequest,
        calls.UsageList,
        RunService.show_usage,
        "Show the usage and the budgets of every task and of the swarm.",
        Permission.READ,
        reads=True,
        service=_service,
    ),
    "set_budget": Operation(
        calls.SetBudgetRequest,
        calls.BudgetAnswer,
        RunService.set_budget,
        "Limit the usage of a task or of the swarm. Only the operator can raise a limit.",
        Permission.STEER,
        service=_service,
    ),
    "pause_swarm": Operation(
        calls.PauseSwarmRequest,
        calls.PauseAnswer,
        RunService.pause_swarm,
        "Stop handing out tasks, or one task, until a time or until the operator resumes.",
        Permission.STEER,
        service=_service,
    ),
    "park_task": Operation(
        calls.ParkTaskRequest,
        calls.ParkAnswer,
        RunService.park_task,
        "Return your task until a time, such as the reset of a quota. This does not count as "
        "a failure.",
        Permission.WORK,
        service=_service,
    ),
    "report_run": Operation(
        calls.ReportRunRequest,
        calls.ReportRunAnswer,
        RunService.report_open_run,
        "Report that a run of the plan has started. The plan is named in advice to the operator.",
        Permission.STEER,
        service=_service,
    ),
    "release_files": Operation(
        calls.ReleaseFilesRequest,
        calls.ReleaseFilesAnswer,
        RunService.release_files_of_open_run,
        "Release the files of the tasks that nobody works on: the run of the swarm has ended.",
        Permission.STEER,
        service=_service,
    ),
    "report_landed": Operation(
        calls.ReportLandedRequest,
        calls.LandedAnswer,
        RunService.report_landed,
        "Report that the accepted commit of a task is on its target branch. The server checks "
        "this.",
        Permission.STEER,
        service=_service,
    ),
    "list_landable": Operation(
        calls.ListLandableRequest,
        calls.LandableList,
        RunService.list_landable,
        "List the tasks that are accepted and have not landed, in the order of acceptance.",
        Permission.READ,
        reads=True,
        service=_service,
    ),
}

RUN_OPERATOR_OPERATIONS: dict[str, Operation] = {
    "set_budget": Operation(
        calls.SetBudgetRequest,
        calls.BudgetAnswer,
        RunService.raise_budget,
        "Limit the usage of a task or of the swarm, or raise the limit.",
        Permission.OPERATE,
        service=_service,
    ),
    "delete_swarm": Operation(
        calls.DeleteSwarmRequest,
        calls.DeleteSwarmAnswer,
        RunService.delete_swarm,
        "Delete a swarm whose work is over with its tasks, packets and events, or with force any "
        "swarm. Its receipts stay.",
        Permission.OPERATE,
        service=_service,
    ),
    "resume_swarm": Operation(
        calls.ResumeSwarmRequest,
        calls.PauseAnswer,
        RunService.resume_swarm,
        "End a pause before its time; a task no longer waits for its answer.",
        Permission.OPERATE,
        service=_service,
    ),
    "report_run": Operation(
        calls.ReportRunRequest,
        calls.ReportRunAnswer,
        RunService.report_run,
        "Report that a run of the plan has started, even if spawning is restricted.",
        Permission.OPERATE,
        service=_service,
    ),
    "release_files": Operation(
        calls.ReleaseFilesRequest,
        calls.ReleaseFilesAnswer,
        RunService.release_files,
        "Release the files of the tasks that nobody works on, even if spawning is restricted.",
        Permission.OPERATE,
        service=_service,
    ),
    "approve": Operation(
        calls.ApproveRequest,
        calls.ReviewAnswer,
        RunService.approve,
        "Approve accepted work, so that it may land.",
        Permission.OPERATE,
        service=_service,
    ),
    "reject": Operation(
        calls.RejectRequest,
        calls.ReviewAnswer,
        RunService.reject,
        "Reject accepted work. The task has failed, and its next attempt gets the reason.",
        Permission.OPERATE,
        service=_service,
    ),
}
