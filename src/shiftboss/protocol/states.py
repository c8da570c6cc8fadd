"""The states of an assignment. All other words for them are views, computed from these."""

from __future__ import annotations

from enum import Enum


class WorkerState(Enum):
    IDLE = "idle"
    ASSIGNED = "assigned"
    EXECUTING = "executing"
    VERIFYING = "verifying"
    SELF_REVIEW = "self_review"
    COMPLETE = "complete"
    FAILED = "failed"
    BLOCKED = "blocked"
    WAITING = "waiting"  # context threshold reached
