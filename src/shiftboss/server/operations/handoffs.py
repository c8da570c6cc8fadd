"""The operations of handoffs, for all clients and for the operator.

The operator's are `POST /operator/{name}`; they need the operator's token and are no MCP tools.
"""

from __future__ import annotations

from operator import attrgetter

from shiftboss.coordinator.bus.service import BusService
from shiftboss.coordinator.claims.receipts import ReceiptService
from shiftboss.coordinator.claims.service import ClaimService
from shiftboss.coordinator.handoffs.service import HandoffService
from shiftboss.protocol import handoff_requests as calls
from shiftboss.protocol.bus import TaskEndAnswer, TaskRequest
from shiftboss.protocol.claims import claim_requests as claims
from shiftboss.rules.access.roles import Permission
from shiftboss.server.operations.contract import CONTRACT_OPERATOR_OPERATIONS
from shiftboss.server.operations.deployment import DEPLOYMENT_OPERATOR_OPERATIONS
from shiftboss.server.operations.notifications import NOTIFICATION_OPERATIONS
from shiftboss.server.operations.operation import Operation
from shiftboss.server.operations.runs import RUN_OPERATOR_OPERATIONS

_service = attrgetter("handoffs")
_claims = attrgetter("claims")
_receipts = attrgetter("receipts")

HANDOFF_OPERATIONS: dict[str, Operation] = {
    "swarm_spawn_subtask": Operation(
        calls.SpawnSubtaskRequest,
        calls.SpawnAnswer,
        HandoffService.swarm_spawn_subtask,
        "Give a task its contract: owned files, criteria, base commit. Returns the handoff "
        "for its worker.",
        Permission.SPAWN,
        service=_service,
    ),
    "swarm_complete": Operation(
        calls.SwarmCompleteRequest,
        calls.CompletionAnswer,
        HandoffService.swarm_complete,
        "Claim that a task with a handoff is done. The server verifies the commit and returns "
        "a receipt or every violation.",
        Permission.WORK,
        service=_service,
        waits=True,
    ),
    "show_handoff": Operation(
        calls.ShowHandoffRequest,
        calls.HandoffView,
        HandoffService.show_handoff,
        "Show the contract of a task, in its current or an older version, and its newest claim.",
        Permission.READ,
        reads=True,
        service=_service,
    ),
    "request_scope": Operation(
        calls.RequestScopeRequest,
        calls.ScopeView,
        HandoffService.request_scope,
        "Ask for files in addition to those of your contract. Granted at once if no task owns "
        "them and they do not decide how the work is checked.",
        Permission.WORK,
        service=_service,
    ),
    "dispute_contract": Operation(
        calls.DisputeContractRequest,
        calls.DisputeView,
        HandoffService.dispute_contract,
        "Say that your contract is wrong or impossible to meet, with evidence. It is no failure: "
        "the task waits for the operator's answer.",
        Permission.WORK,
        service=_service,
    ),
    "list_scope_requests": Operation(
        calls.ListScopeRequestsRequest,
        calls.ScopeList,
        HandoffService.list_scope_requests,
        "List the files that workers asked for, and the decisions.",
        Permission.READ,
        reads=True,
        service=_service,
    ),
    "who_owns": Operation(
        calls.OwnershipRequest,
        calls.OwnershipAnswer,
        HandoffService.who_owns,
        "List which tasks in flight own which files; with `files`, only the tasks that own "
        "any of these.",
        Permission.READ,
        reads=True,
        service=_service,
    ),
    "show_receipt": Operation(
        claims.ReceiptRequest,
        claims.ReceiptAnswer,
        ReceiptService.show_receipt,
        "Show the signed receipt of a completed task, and the public key.",
        Permission.READ,
        reads=True,
        service=_receipts,
    ),
    "export_receipt": Operation(
        claims.ExportReceiptRequest,
        claims.ExportReceiptAnswer,
        ReceiptService.export_receipt,
        "Show the receipt of a completed task as an in-toto statement in a DSSE envelope.",
        Permission.READ,
        reads=True,
        service=_receipts,
    ),
    "list_receipts": Operation(
        claims.ListReceiptsRequest,
        claims.ReceiptList,
        ReceiptService.list_receipts,
        "List the receipts in the order of acceptance, one page at a time.",
        Permission.READ,
        reads=True,
        service=_receipts,
    ),
    "list_claims": Operation(
        claims.ListClaimsRequest,
        claims.ClaimList,
        ClaimService.list_claims,
        "List the claims that have no verdict yet: which verifier works on each, since when, or "
        "why it waits.",
        Permission.READ,
        reads=True,
        service=_claims,
    ),
    "swarm_plan": Operation(
        calls.PlanRequest,
        calls.PlanAnswer,
        HandoffService.swarm_plan,
        "Suggest a strategy for splitting a goal into tasks, based on the record of earlier ones.",
        Permission.READ,
        reads=True,
        service=_service,
    ),
}

OPERATOR_OPERATIONS: dict[str, Operation] = {
    "spawn_subtask": Operation(
        calls.SpawnSubtaskRequest,
        calls.SpawnAnswer,
        HandoffService.spawn_subtask,
        "Give a task its contract, even if spawning is restricted.",
        Permission.OPERATE,
        service=_service,
    ),
    "replace_handoff": Operation(
        calls.SpawnSubtaskRequest,
        calls.SpawnAnswer,
        HandoffService.replace_handoff,
        "Put a new version of a task's contract in force.",
        Permission.OPERATE,
        service=_service,
    ),
    "amend_handoff": Operation(
        calls.AmendHandoffRequest,
        calls.HandoffView,
        HandoffService.amend_handoff,
        "Change parts of a task's contract. A worker that disputed it continues.",
        Permission.OPERATE,
        service=_service,
    ),
    "decide_scope": Operation(
        calls.DecideScopeRequest,
        calls.ScopeView,
        HandoffService.decide_scope,
        "Grant or refuse the files that a worker asked for.",
        Permission.OPERATE,
        service=_service,
    ),
    "waive": Operation(
        calls.WaiveRequest,
        calls.WaiveAnswer,
        HandoffService.waive,
        "Waive one failing check of a task. The receipt records it.",
        Permission.OPERATE,
        service=_service,
    ),
    "take_claim": Operation(
        claims.TakeClaimRequest,
        claims.TakeClaimAnswer,
        ClaimService.take_claim,
        "For a verifier: take the next claim, or wait for one.",
        Permission.VERIFY,
        service=_claims,
        waits=True,
    ),
    "renew_claim": Operation(
        claims.RenewClaimRequest,
        claims.RenewClaimAnswer,
        ClaimService.renew_claim,
        "For a verifier: renew its claim.",
        Permission.VERIFY,
        service=_claims,
    ),
    "report_verdict": Operation(
        claims.VerdictRequest,
        claims.VerdictAnswer,
        ClaimService.report_verdict,
        "For a verifier: report the verdict.",
        Permission.VERIFY,
        service=_claims,
    ),
    "retry_claim": Operation(
        claims.RetryClaimRequest,
        claims.RetryClaimAnswer,
        ClaimService.retry_claim,
        "Let every verifier look at a claim again at once, after they could not.",
        Permission.OPERATE,
        service=_claims,
    ),
    "retry_task": Operation(
        TaskRequest,
        TaskEndAnswer,
        BusService.retry_any_task,
        "Queue a task again, also a cancelled one, even if spawning is restricted.",
        Permission.OPERATE,
    ),
    **CONTRACT_OPERATOR_OPERATIONS,
    **RUN_OPERATOR_OPERATIONS,
    **DEPLOYMENT_OPERATOR_OPERATIONS,
    **NOTIFICATION_OPERATIONS,
}
