"""The operations of the completion contract: those of everybody, and those of the operator."""

from __future__ import annotations

from operator import attrgetter

from shiftboss.coordinator.contract.context import ContextService
from shiftboss.coordinator.contract.service import ContractService
from shiftboss.protocol import contract_requests as calls
from shiftboss.protocol.ci import ShowCiAnswer, ShowCiRequest
from shiftboss.protocol.contract_requests import BuildContextRequest, ContextAnswer
from shiftboss.server.operations.operation import Operation

_desk = attrgetter("contract")

CONTRACT_OPERATIONS: dict[str, Operation] = {
    "report_milestone": Operation(
        calls.ReportMilestoneRequest,
        calls.MilestoneAnswer,
        ContractService.report_milestone,
        "Say where your task stands: WORKING, PUSHED_TO_CI, FIXING_CI, DONE or BLOCKED, as a line "
        "of the contract or as a report. DONE is verified.",
        desk=_desk,
        waits=True,
    ),
    "report_failure": Operation(
        calls.ReportFailureRequest,
        calls.FailureAnswer,
        ContractService.report_failure,
        "Say what went wrong; the answer says whether to retry, fix, wait or stop.",
        desk=_desk,
    ),
    "show_ci": Operation(
        ShowCiRequest,
        ShowCiAnswer,
        ContextService.show_ci,
        "What CI says of the commit that you pushed last, with the logs of what failed.",
        reads=True,
        desk=attrgetter("context"),
    ),
    "get_ci_instructions": Operation(
        calls.InstructionsRequest,
        calls.InstructionsAnswer,
        ContractService.get_ci_instructions,
        "What to know about CI, once you have pushed.",
        reads=True,
        desk=_desk,
    ),
    "get_worker_prompt": Operation(
        calls.InstructionsRequest,
        calls.InstructionsAnswer,
        ContractService.get_worker_prompt,
        "The short prompt that a worker of the task starts with.",
        reads=True,
        desk=_desk,
    ),
    "build_context": Operation(
        BuildContextRequest,
        ContextAnswer,
        ContextService.build_context,
        "All that a new worker of the task should know, within a budget of tokens: plan, files, "
        "tests, specs, history, and what goes on around it.",
        reads=True,
        desk=attrgetter("context"),
    ),
    "can_spawn": Operation(
        calls.CanSpawnRequest,
        calls.CanSpawnAnswer,
        ContractService.can_spawn,
        "Whether work on a repo may start now, and what stands in the way.",
        reads=True,
        desk=_desk,
    ),
    "list_repos": Operation(
        calls.ReposRequest,
        calls.ReposAnswer,
        ContractService.list_repos,
        "The repos of the policy in their phases: who works on them, what CI says, what is halted.",
        reads=True,
        desk=_desk,
    ),
    "show_checkpoint": Operation(
        calls.ShowCheckpointRequest,
        calls.CheckpointAnswer,
        ContractService.show_checkpoint,
        "Where the attempt at a task stood when it was last written down.",
        reads=True,
        desk=_desk,
    ),
}

CONTRACT_OPERATOR_OPERATIONS: dict[str, Operation] = {
    "release_repo": Operation(
        calls.ReleaseRepoRequest,
        calls.OperatorAnswer,
        ContractService.release_repo,
        "Release the lock of a repo whose work was not proven done.",
        desk=_desk,
    ),
    "resume": Operation(
        calls.ResumeRequest,
        calls.OperatorAnswer,
        ContractService.resume,
        "Lift a halt.",
        desk=_desk,
    ),
}
