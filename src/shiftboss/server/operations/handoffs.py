"""The operations of handoffs: those of everybody, once for HTTP (`POST /bus/{name}`) and once for
MCP, and those of the operator (`POST /operator/{name}`), which need the operator's token."""

from __future__ import annotations

from operator import attrgetter

from shiftboss.coordinator.handoffs.service import HandoffService
from shiftboss.protocol import handoff_requests as calls
from shiftboss.server.operations.contract import CONTRACT_OPERATOR_OPERATIONS
from shiftboss.server.operations.operation import Operation
from shiftboss.server.operations.runs import RUNNING_OPERATOR_OPERATIONS

_desk = attrgetter("handoffs")

HANDOFF_OPERATIONS: dict[str, Operation] = {
    "swarm_spawn_subtask": Operation(
        calls.SpawnSubtaskRequest,
        calls.SpawnAnswer,
        HandoffService.swarm_spawn_subtask,
        "Give a task its contract: files it owns, criteria, base commit. Answers with the handoff "
        "for its worker.",
        desk=_desk,
    ),
    "swarm_complete": Operation(
        calls.SwarmCompleteRequest,
        calls.CompletionAnswer,
        HandoffService.swarm_complete,
        "Say that a task with a handoff is done. The server looks at the commit itself and answers "
        "with a receipt, or with every violation.",
        desk=_desk,
        waits=True,
    ),
    "show_handoff": Operation(
        calls.ShowHandoffRequest,
        calls.HandoffView,
        HandoffService.show_handoff,
        "The contract of a task, its version in force or an older one, and its newest claim.",
        reads=True,
        desk=_desk,
    ),
    "request_scope": Operation(
        calls.RequestScopeRequest,
        calls.ScopeView,
        HandoffService.request_scope,
        "Ask for files beside those of your contract. Granted at once where nobody owns them and "
        "they do not decide how the work is checked.",
        desk=_desk,
    ),
    "list_scope_requests": Operation(
        calls.ListScopeRequestsRequest,
        calls.ScopeList,
        HandoffService.list_scope_requests,
        "Which files workers asked for, and what was decided.",
        reads=True,
        desk=_desk,
    ),
    "who_owns": Operation(
        calls.OwnershipRequest,
        calls.OwnershipAnswer,
        HandoffService.who_owns,
        "Which tasks in flight own which files; with `files`, who is in their way.",
        reads=True,
        desk=_desk,
    ),
    "show_receipt": Operation(
        calls.ReceiptRequest,
        calls.ReceiptAnswer,
        HandoffService.show_receipt,
        "The signed receipt of a completed task, and the key that checks it.",
        reads=True,
        desk=_desk,
    ),
    "list_receipts": Operation(
        calls.ListReceiptsRequest,
        calls.ReceiptList,
        HandoffService.list_receipts,
        "The receipts in the order of their acceptance, a page at a time.",
        reads=True,
        desk=_desk,
    ),
    "swarm_plan": Operation(
        calls.PlanRequest,
        calls.PlanAnswer,
        HandoffService.swarm_plan,
        "Which strategy to cut a goal into tasks with, by the record of earlier ones.",
        reads=True,
        desk=_desk,
    ),
}

OPERATOR_OPERATIONS: dict[str, Operation] = {
    "spawn_subtask": Operation(
        calls.SpawnSubtaskRequest,
        calls.SpawnAnswer,
        HandoffService.spawn_subtask,
        "Give a task its contract, also where spawning is not open to all.",
        desk=_desk,
    ),
    "replace_handoff": Operation(
        calls.SpawnSubtaskRequest,
        calls.SpawnAnswer,
        HandoffService.replace_handoff,
        "Put a new version of a task's contract in force.",
        desk=_desk,
    ),
    "decide_scope": Operation(
        calls.DecideScopeRequest,
        calls.ScopeView,
        HandoffService.decide_scope,
        "Grant or refuse the files that a worker asked for.",
        desk=_desk,
    ),
    "waive": Operation(
        calls.WaiveRequest,
        calls.WaiveAnswer,
        HandoffService.waive,
        "Let one check of a task pass that fails. The receipt says so.",
        desk=_desk,
    ),
    "take_claim": Operation(
        calls.TakeClaimRequest,
        calls.TakeClaimAnswer,
        HandoffService.take_claim,
        "A verifier takes the next claim, and waits for one.",
        desk=_desk,
        waits=True,
    ),
    "renew_claim": Operation(
        calls.RenewClaimRequest,
        calls.RenewClaimAnswer,
        HandoffService.renew_claim,
        "A verifier is still at its claim.",
        desk=_desk,
    ),
    "report_verdict": Operation(
        calls.VerdictRequest,
        calls.VerdictAnswer,
        HandoffService.report_verdict,
        "What a verifier found.",
        desk=_desk,
    ),
    **CONTRACT_OPERATOR_OPERATIONS,
    **RUNNING_OPERATOR_OPERATIONS,
}
