"""Events: the entries of the append-only log of a swarm."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from shiftboss.protocol.fields import wire_time


class EventKind(StrEnum):
    SWARM_CREATED = "swarm_created"
    WORKER_REGISTERED = "worker_registered"
    PROGRESS_UPDATE = "progress_update"
    WORKER_COMPLETE = "worker_complete"
    WORKER_ERROR = "worker_error"
    RETRY_DUE = "retry_due"
    SWARM_COMPLETE = "swarm_complete"
    SWARM_REOPENED = "swarm_reopened"
    BUS_WORKER_JOINED = "bus_worker_joined"
    BUS_WORKER_RESET = "bus_worker_reset"
    TASK_ADDED = "task_added"
    TASK_QUEUED = "task_queued"
    TASK_ASSIGNED = "task_assigned"
    TASK_STARTED = "task_started"
    TASK_PROGRESS = "task_progress"
    TASK_DONE = "task_done"
    TASK_FAILED = "task_failed"
    TASK_CANCELLED = "task_cancelled"
    TASK_REOPENED = "task_reopened"
    TASK_WITHDRAWN = "task_withdrawn"
    ATTEMPT_ENDED = "attempt_ended"
    AGENT_RUN_ENDED = "agent_run_ended"
    CHECKPOINT_STORED = "checkpoint_stored"
    QUESTION_ASKED = "question_asked"
    QUESTION_ANSWERED = "question_answered"
    QUESTIONS_WITHDRAWN = "questions_withdrawn"
    ANSWER_DELIVERED = "answer_delivered"
    HANDOFF_SPAWNED = "handoff_spawned"
    CONTRACT_CHANGED = "contract_changed"
    CONTRACT_DISPUTED = "contract_disputed"
    CLAIM_MADE = "claim_made"
    CLAIM_PASSED = "claim_passed"
    CLAIM_ESCALATED = "claim_escalated"
    CLAIM_RETRIED = "claim_retried"
    CLAIM_ACCEPTED = "claim_accepted"
    CLAIM_REFUSED = "claim_refused"
    SCOPE_REQUESTED = "scope_requested"
    SCOPE_DECIDED = "scope_decided"
    WAIVER_GRANTED = "waiver_granted"
    FILES_RELEASED = "files_released"
    REPO_LOCKED = "repo_locked"
    REPO_RELEASED = "repo_released"
    MILESTONE_REPORTED = "milestone_reported"
    CI_RUN_FOUND = "ci_run_found"
    CI_PASSED = "ci_passed"
    CI_FAILED = "ci_failed"
    CI_UNREACHABLE = "ci_unreachable"
    CI_RESTARTED = "ci_restarted"
    WORK_PAUSED = "work_paused"
    WORK_RESUMED = "work_resumed"
    TIMEOUT_WARNING = "timeout_warning"
    TIMEOUT_STEP = "timeout_step"
    TIMEOUT_ESCALATED = "timeout_escalated"
    DEADLOCK_SUSPECTED = "deadlock_suspected"
    FAILURE_REPORTED = "failure_reported"
    CHAIN_HALTED = "chain_halted"
    HALT_LIFTED = "halt_lifted"
    BUDGET_SET = "budget_set"
    BUDGET_EXCEEDED = "budget_exceeded"
    DISPATCH_PAUSED = "dispatch_paused"
    DISPATCH_RESUMED = "dispatch_resumed"
    TASK_PARKED = "task_parked"
    TASK_LANDED = "task_landed"
    REVIEW_REQUESTED = "review_requested"
    REVIEW_APPROVED = "review_approved"
    REVIEW_REJECTED = "review_rejected"
    BREAKAGE_FOUND = "breakage_found"
    BREAKAGE_SUSPECTED = "breakage_suspected"
    BREAKAGE_RULED_OUT = "breakage_ruled_out"


class Event(NamedTuple):
    """`event_id` counts 1, 2, 3 ... within the swarm, in commit order."""

    swarm_id: str
    event_id: int
    kind: str
    at_ms: int
    data: str  # a JSON object
    actor: str = ""  # who caused it; empty for events of older versions

    def to_sse(self) -> bytes:
        """The bytes of the event on an event stream. `data` has no line breaks. Readers ignore
        fields that they do not know, such as `at` and `actor`."""
        head = f"id: {self.event_id}\nevent: {self.kind}\n"
        tail = f"at: {wire_time(self.at_ms)}\nactor: {self.actor}\n\n"
        return f"{head}data: {self.data}\n{tail}".encode()
