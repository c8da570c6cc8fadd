"""What an actor is limited to: the swarm, the task and the worker that a request may name.

The surfaces check what a request names; use cases check what they find out in the transaction, such
as the task that a worker holds.
"""

from __future__ import annotations

from typing import Final

from shiftboss.errors import Forbidden
from shiftboss.rules.access.actors import Actor
from shiftboss.rules.access.roles import Permission, Role, is_allowed

# An actor of these roles may be limited to one task or to one worker.
LIMITED_TO_TASK: Final = frozenset({Role.WORKER, Role.READ_ONLY})
LIMITED_TO_WORKER: Final = frozenset({Role.WORKER, Role.VERIFIER})
# A verifier gets the claims of all swarms; what an operator does concerns all of them.
LIMITED_TO_SWARM: Final = frozenset({Role.WORKER, Role.SPAWNER, Role.ORCHESTRATOR, Role.READ_ONLY})


def check_permission(actor: Actor, permission: Permission) -> None:
    """Raises Forbidden."""
    if not is_allowed(actor.role, permission):
        raise Forbidden(
            f"the role {actor.role.value} of {actor.name} does not allow this: it needs the "
            f"permission {permission.value}",
            field="Authorization",
            hint="use a token with a role that has it; the table of roles is in the reference",
            facts={"permission": permission.value, "role": actor.role.value},
        )


def check_swarm(actor: Actor, swarm_id: str | None, field: str = "swarm_id") -> None:
    if actor.swarm_id is not None and swarm_id != actor.swarm_id:
        raise _limited(actor, "swarm", actor.swarm_id, field)


def check_task(actor: Actor, task_id: str | None, field: str = "bead_id") -> None:
    if actor.task_id is not None and task_id != actor.task_id:
        raise _limited(actor, "task", actor.task_id, field)


def check_worker(actor: Actor, worker: str | None, field: str = "name") -> None:
    if actor.worker is not None and worker != actor.worker:
        raise _limited(actor, "worker", actor.worker, field)


def _limited(actor: Actor, kind: str, only: str, field: str) -> Forbidden:
    return Forbidden(
        f"{field}: the token of {actor.name} is limited to the {kind} {only}",
        field=field,
        hint=f"name {only}, or use a token that is not limited to it",
    )
