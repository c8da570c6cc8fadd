"""The tree of errors. Each has a stable code and an HTTP status.

ShiftbossError
├── InvalidRequest          422  the request is malformed; names the field
│   ├── InvalidReceipt
│   ├── InvalidPolicy
│   ├── InvalidPlan
│   └── BodyTooLarge        413
├── NotFound                404
│   ├── UnknownSwarm
│   ├── UnknownPacket
│   ├── UnknownWorker
│   ├── UnknownTask
│   ├── UnknownQuestion
│   ├── UnknownHandoff
│   ├── UnknownReceipt
│   ├── UnknownKey
│   ├── UnknownRepo
│   ├── UnknownHalt
│   ├── UnknownCheckpoint
│   ├── UnknownPolicy
│   ├── UnknownToken
│   ├── UnknownNotification
│   ├── DiffUnavailable
│   └── UnknownPath
├── MethodNotAllowed        405
├── MalformedRequest        400  this is not HTTP as the server reads it
│   ├── TlsRequired
│   ├── HeadTooLarge        431
│   └── RequestTimeout      408
├── UnsupportedMediaType    415
├── TooManyRequests         429  nothing was changed; retry after the named time
├── Conflict                409  the request is well-formed, but the current state rules it out
│   ├── SwarmExists
│   ├── PacketConflict
│   ├── PacketFinished
│   ├── CounterRegression
│   ├── KeyReused
│   ├── TokenExists
│   ├── TaskExists
│   ├── TaskEnded
│   ├── TaskMismatch
│   ├── NotHeld
│   ├── StaleEpoch
│   ├── IllegalTransition
│   ├── AlreadyAnswered
│   ├── HandoffExists
│   ├── DependenciesUnfinished
│   ├── OwnershipOverlap
│   ├── StaleContract
│   ├── StalePolicy
│   ├── ContractViolations
│   ├── MergeConflict
│   ├── HistoryIncomplete
│   ├── WorkPaused
│   ├── NotApproved
│   └── RepoBlocked
├── Forbidden               403
├── Unauthorized            401
├── LeadershipLost          409  only duties of a server get it
└── StoreUnavailable        503  nothing was changed; retry later
    ├── TooManyConnections
    ├── TrackerUnavailable
    ├── EvidenceUnavailable
    │   ├── CiUnavailable
    │   └── EvidenceElsewhere    this machine cannot look; another verifier may be able to
    ├── VerificationPending
    ├── TreeUnavailable
    ├── DatabaseInUse
    ├── PolicyChanging
    ├── NotReady
    ├── IncompatibleServers      servers of another version have to stop first
    ├── OutcomeUnknown           the change may have been made; repeat it with its key
    ├── SchemaMismatch           the database was written by another build; a retry does not help
    └── StoreDamaged             no more writes until the operator has restored the database
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from typing import ClassVar, Final

_POLL_FOR_OTHER_WORK: Final = "the lease expired or the task was taken back; poll for other work"


class ShiftbossError(Exception):
    """Base of all errors that a caller can get.

    `field` names the member of the request that caused it, if there is one. `hint` says what to do
    about it. `facts` are extra members of the response, such as the recorded counter.
    """

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 500
    title: ClassVar[str] = "Error"
    # When to try again; the reply says so in its header Retry-After.
    retry_after_seconds: float | None = None

    def __init__(
        self,
        detail: str,
        *,
        field: str | None = None,
        hint: str | None = None,
        facts: dict[str, object] | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.field = field
        self.hint = hint
        self.facts = facts or {}


class InvalidRequest(ShiftbossError):
    code = "invalid_request"
    status = 422
    title = "The request is not valid"


class BodyTooLarge(InvalidRequest):
    code = "body_too_large"
    status = 413
    title = "The body is too large"


class InvalidReceipt(InvalidRequest):
    code = "invalid_receipt"
    title = "The receipt is not valid"


class InvalidPolicy(InvalidRequest):
    code = "invalid_policy"
    title = "The policy file is not valid"


class InvalidPlan(InvalidRequest):
    code = "invalid_plan"
    title = "The plan is not valid"


class NotFound(ShiftbossError):
    code = "not_found"
    status = 404
    title = "Not found"


class UnknownSwarm(NotFound):
    code = "unknown_swarm"
    title = "Unknown swarm"

    def __init__(self, swarm_id: str) -> None:
        super().__init__(
            f"Unknown swarm: {swarm_id}",
            field="swarm_id",
            hint="`shiftboss swarm list` lists the existing ones; create it first if it is new",
        )


class UnknownPacket(NotFound):
    code = "unknown_packet"
    title = "Unknown packet"

    def __init__(self, swarm_id: str, packet_id: int) -> None:
        super().__init__(
            f"Unknown packet in swarm {swarm_id}: {packet_id}",
            field="packet_id",
            hint=f"register it first: POST /swarm/{swarm_id}/register",
        )


class UnknownWorker(NotFound):
    code = "unknown_worker"
    title = "Unknown worker"

    def __init__(self, name: str, field: str = "name") -> None:
        super().__init__(f"Unknown worker: {name} - call register_worker first", field=field)


class UnknownTask(NotFound):
    code = "unknown_task"
    title = "Unknown task"

    def __init__(self, task_id: str, field: str = "bead_id") -> None:
        super().__init__(
            f"Unknown task: {task_id}",
            field=field,
            hint="`shiftboss task list` lists the existing ones; add it first if it is new",
        )


class UnknownQuestion(NotFound):
    code = "unknown_question"
    title = "Unknown question"


class UnknownPath(NotFound):
    code = "unknown_path"


class UnknownHandoff(NotFound):
    code = "unknown_handoff"
    title = "The task has no handoff"

    def __init__(self, task_id: str) -> None:
        super().__init__(
            f"Task {task_id} has no handoff",
            field="bead_id",
            hint="create one first: swarm_spawn_subtask, or the command handoff spawn",
        )


class UnknownReceipt(NotFound):
    code = "unknown_receipt"
    title = "There is no such receipt"


class UnknownKey(NotFound):
    code = "unknown_key"
    title = "There is no such key"


class UnknownRepo(NotFound):
    code = "unknown_repo"
    title = "There is no such repository"


class UnknownHalt(NotFound):
    code = "unknown_halt"
    title = "There is no such halt"


class UnknownCheckpoint(NotFound):
    code = "unknown_checkpoint"
    title = "There is no checkpoint"


class UnknownPolicy(NotFound):
    code = "unknown_policy"
    title = "There is no such version of the policy"


class UnknownToken(NotFound):
    code = "unknown_token"
    title = "There is no such token"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"there is no valid token {name}",
            field="token",
            hint="`shiftboss token list` lists them",
        )


class UnknownNotification(NotFound):
    code = "unknown_notification"
    title = "There is no such notification"

    def __init__(self, number: int) -> None:
        super().__init__(
            f"there is no notification {number} on this channel",
            field="number",
            hint="`shiftboss notify list` lists them",
        )


class DiffUnavailable(NotFound):
    """The server cannot show the work of a task; a command on another machine may."""

    code = "diff_unavailable"
    title = "There is no difference to show"

    def __init__(self, task_id: str, reason: str, command: str) -> None:
        super().__init__(
            f"the work of {task_id} cannot be shown: {reason}",
            field="bead_id",
            hint=f"`{command}`, on the machine that has its repository",
            facts={"command": command},
        )


class MethodNotAllowed(ShiftbossError):
    code = "method_not_allowed"
    status = 405
    title = "Method not allowed"

    def __init__(self, method: str, path: str, allowed: Sequence[str]) -> None:
        self.allowed = ", ".join(sorted(allowed))
        super().__init__(
            f"{path} does not support {method}", field="method", hint=f"use {self.allowed}"
        )


class MalformedRequest(ShiftbossError):
    code = "malformed_request"
    status = 400
    title = "The request is not well-formed"


class TlsRequired(MalformedRequest):
    """Plain HTTP came to a port that speaks TLS. Nothing of the request was read."""

    code = "tls_required"
    title = "The server speaks TLS"


class HeadTooLarge(MalformedRequest):
    code = "head_too_large"
    status = 431
    title = "The headers are too large"


class RequestTimeout(MalformedRequest):
    code = "request_timeout"
    status = 408
    title = "The request took too long to arrive"


class UnsupportedMediaType(ShiftbossError):
    code = "unsupported_media_type"
    status = 415
    title = "The body is not declared as JSON"


class TooManyRequests(ShiftbossError):
    code = "too_many_requests"
    status = 429
    title = "Too many requests"

    def __init__(self, detail: str, retry_after_seconds: float) -> None:
        seconds = max(1, math.ceil(retry_after_seconds))
        super().__init__(
            detail,
            hint=f"send the same request again in {seconds} s, as the header Retry-After says",
            facts={"retry_after_seconds": round(retry_after_seconds, 3)},
        )
        self.retry_after_seconds = retry_after_seconds


class Conflict(ShiftbossError):
    code = "conflict"
    status = 409
    title = "Conflict"


class SwarmExists(Conflict):
    code = "swarm_exists"
    title = "The swarm exists with other settings"


class PacketConflict(Conflict):
    code = "packet_conflict"
    title = "The packet is registered with other settings"


class PacketFinished(Conflict):
    code = "packet_finished"
    title = "The packet has finished"


class CounterRegression(Conflict):
    code = "counter_regression"
    title = "tasks_completed went down"


class KeyReused(Conflict):
    code = "idempotency_key_reused"
    title = "The idempotency key was used for another request"


class TokenExists(Conflict):
    code = "token_exists"
    title = "The name has a token already"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name} has a token already; nothing was changed",
            field="name",
            hint=f"`shiftboss token rotate {name}` makes a new one, and "
            f"`shiftboss token revoke {name}` ends it",
        )


class TaskExists(Conflict):
    code = "task_exists"
    title = "The task exists with other settings"


class TaskEnded(Conflict):
    code = "task_ended"
    title = "The task has ended"

    def __init__(self, task_id: str, status: str, swarm_id: str | None = None) -> None:
        """With `swarm_id`, the hint says how a cancelled task is brought back."""
        is_back_possible = status == "cancelled" and swarm_id is not None
        command = f"shiftboss task retry {shlex.quote(task_id)} --swarm {swarm_id}"
        super().__init__(
            f"Task {task_id} is {status}; nothing was changed",
            field="bead_id",
            hint=f"`{command}` brings it back" if is_back_possible else None,
            facts={"task_status": status},
        )


class TaskMismatch(Conflict):
    """The worker named a task that it was not given, or acknowledged one twice."""

    code = "task_mismatch"
    title = "Task mismatch"

    def __init__(self, name: str, assigned: str | None, acknowledged: str) -> None:
        super().__init__(
            "Task mismatch",
            field="bead_id",
            hint=f"{name} was given {assigned or 'no task'}, not {acknowledged}"
            if assigned != acknowledged
            else f"{name} has already acknowledged {acknowledged}",
            facts={"given": assigned},
        )


class NotHeld(Conflict):
    code = "not_held"
    title = "The task is not held"

    def __init__(self, task_id: str, holder: str | None) -> None:
        detail = (
            f"Task {task_id} is held by {holder}" if holder else f"No worker holds task {task_id}"
        )
        super().__init__(
            f"{detail}; nothing was changed",
            field="bead_id",
            hint="only the worker that acknowledged a task can report on it",
            facts={"holder": holder},
        )


class StaleEpoch(Conflict):
    code = "stale_epoch"
    title = "The attempt is over"

    def __init__(self, task_id: str, reported: int, current: int) -> None:
        super().__init__(
            f"Task {task_id} is at epoch {current}, the report is from epoch {reported}; "
            "nothing was changed",
            field="epoch",
            hint=_POLL_FOR_OTHER_WORK,
            facts={"current_epoch": current},
        )

    @classmethod
    def without_task(cls, worker: str, reported: int) -> StaleEpoch:
        """The worker has lost its task, and has no other one."""
        error = cls.__new__(cls)
        ShiftbossError.__init__(
            error,
            f"{worker} holds no task, the report is from epoch {reported}; nothing was changed",
            field="epoch",
            hint=_POLL_FOR_OTHER_WORK,
            facts={"current_epoch": None},
        )
        return error


class IllegalTransition(Conflict):
    code = "illegal_transition"
    title = "The state machine does not allow this transition"


class AlreadyAnswered(Conflict):
    code = "already_answered"
    title = "The question already has an answer"


class HandoffExists(Conflict):
    code = "handoff_exists"
    title = "The task already has a handoff"


class DependenciesUnfinished(Conflict):
    code = "dependencies_unfinished"
    title = "Dependencies are not finished"

    def __init__(self, task_id: str, unfinished: list[str]) -> None:
        super().__init__(
            f"Task {task_id} depends on unfinished tasks: {', '.join(unfinished)}; "
            "nothing was changed",
            field="dependencies_completed",
            hint="complete these tasks first, then spawn or complete this one",
            facts={"unfinished": unfinished},
        )


class OwnershipOverlap(Conflict):
    code = "ownership_overlap"
    title = "Another task owns these files"


class StaleContract(Conflict):
    code = "stale_contract"
    title = "The contract has a newer version"

    def __init__(self, task_id: str, reported: int, current: int) -> None:
        super().__init__(
            f"The contract of {task_id} is at version {current}, the report names {reported}; "
            "nothing was changed",
            field="contract_version",
            hint=f"read the current version: `shiftboss handoff show {task_id}`, or the tool "
            "show_handoff",
            facts={"current_version": current},
        )


class StalePolicy(Conflict):
    code = "stale_policy"
    title = "The policy has a newer version"

    def __init__(self, expected: int, current: int, applied_by: str) -> None:
        super().__init__(
            f"version {current} of the policy is in force, applied by {applied_by}; the change was "
            f"made to version {expected}. Nothing was changed",
            field="expected_version",
            hint="look at what has changed, then apply it again: shiftboss policy history",
            facts={"current_version": current},
        )


class ContractViolations(Conflict):
    code = "contract_violations"
    title = "The work violates the contract"


class MergeConflict(Conflict):
    code = "merge_conflict"
    title = "The commits cannot be merged automatically"


class HistoryIncomplete(Conflict):
    """A state cannot be reconstructed from the events, because the first ones were deleted."""

    code = "history_incomplete"
    title = "The first events were deleted"

    def __init__(self, swarm_id: str, first: int) -> None:
        super().__init__(
            f"the events of {swarm_id} before {first} were deleted, so its earlier states cannot "
            "be reconstructed",
            field="at",
            hint="a server keeps events for --retention-days; its present state is in "
            f"`shiftboss status {swarm_id}`",
            facts={"first_event_id": first},
        )


class WorkPaused(Conflict):
    code = "work_paused"
    title = "The work is paused"


class NotApproved(Conflict):
    code = "not_approved"
    title = "The work has to be approved first"


class RepoBlocked(Conflict):
    code = "repo_blocked"
    title = "The repo is blocked"


class Forbidden(ShiftbossError):
    code = "forbidden"
    status = 403
    title = "Forbidden"


class Unauthorized(ShiftbossError):
    code = "unauthorized"
    status = 401
    title = "A token is required"


class LoginCodeInvalid(Unauthorized):
    code = "login_code_invalid"
    title = "The login link is not valid"

    def __init__(self) -> None:
        super().__init__(
            "this login link is not valid: it was used before, or is older than ten minutes",
            field="code",
            hint="get a new one with `shiftboss open`",
        )


class LeadershipLost(ShiftbossError):
    """For duties that only the leader of the servers on a database runs. Nothing was changed."""

    code = "leadership_lost"
    status = 409
    title = "Another server leads"

    def __init__(self) -> None:
        super().__init__("this server no longer leads the servers on its database")


class StoreUnavailable(ShiftbossError):
    code = "store_unavailable"
    status = 503
    title = "The store is unavailable"
    retry_after_seconds = 1.0


class TooManyConnections(StoreUnavailable):
    code = "too_many_connections"
    title = "The server has too many open connections"


class PolicyChanging(StoreUnavailable):
    code = "policy_changing"
    title = "The policy is being replaced"


class TrackerUnavailable(StoreUnavailable):
    code = "tracker_unavailable"
    title = "The tracker did not respond"


class EvidenceUnavailable(StoreUnavailable):
    code = "evidence_unavailable"
    title = "The evidence is not available"


class CiUnavailable(EvidenceUnavailable):
    """The CI gave no usable answer. That never counts as a pass.

    `reason` is one of `down`, `rate_limit`, `token`, `answer`, `set_up` and `commit`.
    """

    code = "ci_unavailable"
    title = "CI did not respond"

    def __init__(
        self,
        detail: str,
        *,
        reason: str,
        retry_after_seconds: float,
        hint: str | None = None,
    ) -> None:
        super().__init__(
            detail,
            hint=hint,
            facts={"reason": reason, "retry_after_seconds": round(retry_after_seconds, 1)},
        )
        self.retry_after_seconds = retry_after_seconds


class EvidenceElsewhere(EvidenceUnavailable):
    """This machine lacks what it needs to look: a complete repository, a tool, the network. That
    says nothing about the work; another verifier may be able to look."""

    code = "evidence_elsewhere"
    title = "The evidence cannot be read on this machine"


class VerificationPending(StoreUnavailable):
    code = "verification_pending"
    title = "The verdict is not ready yet"

    def __init__(self, task_id: str) -> None:
        super().__init__(
            f"The completion of {task_id} is being verified",
            hint="repeat the same request later to get the verdict",
        )


class TreeUnavailable(StoreUnavailable):
    code = "tree_unavailable"
    title = "The work tree cannot be created or used"


class DatabaseInUse(StoreUnavailable):
    code = "database_in_use"
    title = "A server is using this database"


class NotReady(StoreUnavailable):
    """The server must not get traffic now. Known callers are told why."""

    code = "not_ready"
    title = "The server is not ready"


class IncompatibleServers(StoreUnavailable):
    """Other servers on the database have to stop first."""

    code = "incompatible_servers"
    title = "Servers of other versions use the database"


class OutcomeUnknown(StoreUnavailable):
    """The commit failed in a way that does not tell whether it will be found after a crash."""

    code = "outcome_unknown"
    title = "It is unknown whether the change was made"

    def __init__(self, detail: str) -> None:
        super().__init__(
            detail,
            hint="send the same request again in a moment; with its Idempotency-Key it counts once",
            facts={"retry_after_seconds": 1},
        )


class SchemaMismatch(StoreUnavailable):
    """A table or column is missing, or the schema is newer than this program."""

    code = "schema_mismatch"
    title = "The database has the schema of another build"
    # A person has to act first.
    retry_after_seconds = 60.0


class StoreDamaged(StoreUnavailable):
    """The file of the database is damaged, or is not the one that the server has opened."""

    code = "store_damaged"
    title = "The database is damaged"
    # A person has to act first.
    retry_after_seconds = 60.0

    def repeated(self) -> StoreDamaged:
        """For another caller."""
        return StoreDamaged(self.detail, hint=self.hint)
