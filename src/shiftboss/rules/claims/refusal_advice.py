"""The ways out of a refusal that no honest work can avoid: a worker disputes its contract, and the
operator waives a check."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

# A worker has no tool that asks for a waiver.
DISPUTE: Final = "call dispute_contract (command: shiftboss dispute)"


def dispute_command(swarm_id: str, task_id: str) -> str:
    return (
        f"shiftboss dispute {task_id} --swarm {swarm_id} --kind impossible --reason 'why it is so'"
    )


def waive_commands(swarm_id: str, task_id: str, checks: Iterable[str]) -> list[str]:
    """For the operator: accept the work although these checks failed, each once. The commit itself
    cannot be waived, and a wrong ancestry mostly means that there is no work to accept."""
    return [
        f"shiftboss waive {task_id} --swarm {swarm_id} --check {check} --reason 'why it may fail'"
        for check in dict.fromkeys(checks)
        if check not in ("commit", "ancestry")
    ]
