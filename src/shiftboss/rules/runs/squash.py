"""Squash landings: one commit per task on the target, which names the work that it stands for.

The verified commit is not in the history of the target. So the message of the squash says which
commit it is, and "has it landed" is answered by reading messages instead of ancestors.
"""

from __future__ import annotations

from typing import Final

# The verified commit, as in the receipt of the task.
COMMIT_TRAILER: Final = "Shiftboss-Commit"


def squash_message(
    title: str, *, bead_id: str, swarm_id: str, receipt_id: str | None, commit: str
) -> str:
    trailers = [f"Shiftboss-Task: {bead_id}"]
    trailers += [f"Shiftboss-Swarm: {swarm_id}"] if swarm_id else []
    trailers += [f"Shiftboss-Receipt: {receipt_id}"] if receipt_id is not None else []
    trailers.append(f"{COMMIT_TRAILER}: {commit}")
    subject = " ".join(title.split()) or bead_id
    return f"{subject}\n\nVerified work of the task {bead_id}.\n\n" + "\n".join(trailers) + "\n"
