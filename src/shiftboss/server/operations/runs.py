"""The operations of a plan that runs: those of everybody, and those of the operator."""

from __future__ import annotations

from operator import attrgetter

from shiftboss.coordinator.runs.service import RunService
from shiftboss.protocol import runs as calls
from shiftboss.server.operations.operation import Operation

_desk = attrgetter("runs")

RUNNING_OPERATIONS: dict[str, Operation] = {
    "report_usage": Operation(
        calls.ReportUsageRequest,
        calls.UsageAnswer,
        RunService.report_usage,
        "What one process of an attempt has used so far, in tokens and dollars; the answer says "
        "whether a budget is used up.",
        desk=_desk,
    ),
    "show_usage": Operation(
        calls.ShowUsageRequest,
        calls.UsageList,
        RunService.show_usage,
        "What every task and the swarm have used, and what they may.",
        reads=True,
        desk=_desk,
    ),
    "set_budget": Operation(
        calls.SetBudgetRequest,
        calls.BudgetAnswer,
        RunService.set_budget,
        "Limit what a task or the swarm may use. Only the operator can raise a limit.",
        desk=_desk,
    ),
    "pause_swarm": Operation(
        calls.PauseSwarmRequest,
        calls.PauseAnswer,
        RunService.pause_swarm,
        "Hand out nothing, or one task not, until a time or until the operator resumes.",
        desk=_desk,
    ),
    "park_task": Operation(
        calls.ParkTaskRequest,
        calls.ParkAnswer,
        RunService.park_task,
        "Give your task back until a time, such as the reset of a quota. It counts as no failure.",
        desk=_desk,
    ),
    "report_landed": Operation(
        calls.ReportLandedRequest,
        calls.LandedAnswer,
        RunService.report_landed,
        "Say that the accepted commit of a task is on its target branch. The server looks.",
        desk=_desk,
    ),
    "list_landable": Operation(
        calls.ListLandableRequest,
        calls.LandableList,
        RunService.list_landable,
        "The tasks that are accepted and have not landed, in the order of their acceptance.",
        reads=True,
        desk=_desk,
    ),
}

RUNNING_OPERATOR_OPERATIONS: dict[str, Operation] = {
    "set_budget": Operation(
        calls.SetBudgetRequest,
        calls.BudgetAnswer,
        RunService.raise_budget,
        "Limit what a task or the swarm may use, or raise its limit.",
        desk=_desk,
    ),
    "resume_swarm": Operation(
        calls.ResumeSwarmRequest,
        calls.PauseAnswer,
        RunService.resume_swarm,
        "End a pause before its time.",
        desk=_desk,
    ),
}
