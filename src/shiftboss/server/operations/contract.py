"""The operations of the completion contract, for all clients and for the operator."""

from __future__ import annotations

from operator import attrgetter

from shiftboss.coordinator.contract.context import ContextService
from shiftboss.coordinator.contract.service import ContractService
from shiftboss.coordinator.deployment.policies import PolicyService
from shiftboss.protocol.ci import ShowCiAnswer, ShowCiRequest
from shiftboss.protocol.contract import contract_requests as calls
from shiftboss.protocol.contract.contract_requests import BuildContextRequest, ContextAnswer
from shiftboss.rules.access.roles import Permission
from shiftboss.server.operations.operation import Operation

_service = attrgetter("contract")
_policies = attrgetter("policies")

CONTRACT_OPERATIONS: dict[str, Operation] = {
    "report_milestone": Operation(
        calls.ReportMilestoneRequest,
        calls.MilestoneAnswer,
        ContractService.report_milestone,
        "Report where your task stands: WORKING, PUSHED_TO_CI, FIXING_CI, DONE or BLOCKED. "
        "DONE is verified.",
        Permission.WORK,
        service=_service,
        waits=True,
    ),
    "report_failure": Operation(
        calls.ReportFailureRequest,
        calls.FailureAnswer,
        ContractService.report_failure,
        "Report what went wrong. The response says whether to retry, fix, wait or stop.",
        Permission.WORK,
        service=_service,
    ),
    "show_ci": Operation(
        ShowCiRequest,
        ShowCiAnswer,
        ContextService.show_ci,
        "Show the CI result of the commit that you pushed last, with the logs of failed jobs.",
        Permission.READ,
        reads=True,
        service=attrgetter("context"),
    ),
    "get_ci_instructions": Operation(
        calls.InstructionsRequest,
        calls.InstructionsAnswer,
        ContractService.get_ci_instructions,
        "Get the CI instructions, after you have pushed.",
        Permission.READ,
        reads=True,
        service=_service,
    ),
    "get_worker_prompt": Operation(
        calls.InstructionsRequest,
        calls.InstructionsAnswer,
        ContractService.get_worker_prompt,
        "Get the short prompt for the worker of the task.",
        Permission.READ,
        reads=True,
        service=_service,
    ),
    "build_context": Operation(
        BuildContextRequest,
        ContextAnswer,
        ContextService.build_context,
        "Build the context for a new worker of the task, within a token budget: plan, files, "
        "tests, specs, history and related work.",
        Permission.READ,
        reads=True,
        service=attrgetter("context"),
    ),
    "can_spawn": Operation(
        calls.CanSpawnRequest,
        calls.CanSpawnAnswer,
        ContractService.can_spawn,
        "Tell whether work on a repo may start now, and what blocks it.",
        Permission.READ,
        reads=True,
        service=_service,
    ),
    "list_repos": Operation(
        calls.ReposRequest,
        calls.ReposAnswer,
        ContractService.list_repos,
        "List the repos of the policy by phase, with their workers, CI results and halts.",
        Permission.READ,
        reads=True,
        service=_service,
    ),
    "show_policy": Operation(
        calls.ShowPolicyRequest,
        calls.PolicyView,
        PolicyService.show_policy,
        "Show the policy in force, or an older version of it, and whether the file of the server "
        "differs.",
        Permission.READ,
        reads=True,
        service=_policies,
    ),
    "list_policies": Operation(
        calls.ListPoliciesRequest,
        calls.PolicyList,
        PolicyService.list_policies,
        "List the versions of the policy, the newest first: who applied them, and when.",
        Permission.READ,
        reads=True,
        service=_policies,
    ),
    "show_checkpoint": Operation(
        calls.ShowCheckpointRequest,
        calls.CheckpointAnswer,
        ContractService.show_checkpoint,
        "Show the last checkpoint of a task.",
        Permission.READ,
        reads=True,
        service=_service,
    ),
}

CONTRACT_OPERATOR_OPERATIONS: dict[str, Operation] = {
    "apply_policy": Operation(
        calls.ApplyPolicyRequest,
        calls.ApplyPolicyAnswer,
        PolicyService.apply_policy,
        "Put a policy in force, on all servers of the database.",
        Permission.OPERATE,
        service=_policies,
    ),
    "release_repo": Operation(
        calls.ReleaseRepoRequest,
        calls.OperatorAnswer,
        ContractService.release_repo,
        "Release the lock of a repo whose work was not verified.",
        Permission.OPERATE,
        service=_service,
    ),
    "resume": Operation(
        calls.ResumeRequest,
        calls.OperatorAnswer,
        ContractService.resume,
        "Lift a halt.",
        Permission.OPERATE,
        service=_service,
    ),
}
