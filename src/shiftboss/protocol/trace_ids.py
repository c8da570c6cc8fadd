"""The ids of a task's trace, which follow from its swarm and its own id.

Nobody has to be asked for them: the server, the orchestrator, a worker and whoever has a receipt
compute the same. They have the form of W3C Trace Context: 16 and 8 bytes in hexadecimal.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

TRACEPARENT_VARIABLE: Final = "TRACEPARENT"
_SAMPLED: Final = "01"


def trace_id_of(swarm_id: str, task_id: str) -> str:
    return _digest("trace", swarm_id, task_id)[:32]


def span_id_of(swarm_id: str, task_id: str, *names: str | int) -> str:
    """The span of the task itself; with names, that of one of its parts, such as an attempt."""
    return _digest("span", swarm_id, task_id, *names)[:16]


def attempt_span_id_of(swarm_id: str, task_id: str, epoch: int) -> str:
    return span_id_of(swarm_id, task_id, "attempt", epoch)


def traceparent_of(swarm_id: str, task_id: str, epoch: int) -> str:
    """What an agent gets in TRACEPARENT: its own spans become children of its attempt."""
    trace_id = trace_id_of(swarm_id, task_id)
    return f"00-{trace_id}-{attempt_span_id_of(swarm_id, task_id, epoch)}-{_SAMPLED}"


def _digest(*parts: str | int) -> str:
    # Names cannot contain a zero byte, so different parts never give the same text.
    return sha256("\0".join(map(str, parts)).encode()).hexdigest()
