"""The worker state machine, importable flat from this folder."""

from shiftboss.rules.tasks.worker_protocol import (CONTEXT_THRESHOLD, WorkerProtocol, WorkerState, check_context_threshold, create_checkpoint_signal)

__all__ = [
    "CONTEXT_THRESHOLD",
    "WorkerProtocol",
    "WorkerState",
    "check_context_threshold",
    "create_checkpoint_signal",
]
