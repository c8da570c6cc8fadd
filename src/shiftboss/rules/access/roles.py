"""Roles and permissions: every operation needs one permission, and a role has some."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Permission(StrEnum):
    READ = "read"  # look at anything
    WORK = "work"  # take tasks, report on them, claim that they are done
    SPAWN = "spawn"  # add tasks and give them their contracts
    STEER = "steer"  # cancel, retry, reset, pause, answer questions; what a run records
    VERIFY = "verify"  # take claims and report verdicts
    OPERATE = "operate"  # waive, grant, approve; tokens, keys and the policy


class Role(StrEnum):
    WORKER = "worker"
    SPAWNER = "spawner"
    ORCHESTRATOR = "orchestrator"
    VERIFIER = "verifier"
    OPERATOR = "operator"
    READ_ONLY = "read-only"
    # What a caller may do where no names are asked for, and with the token that all share.
    ANYBODY = "anybody"


PERMISSIONS: Final[dict[Role, frozenset[Permission]]] = {
    Role.WORKER: frozenset({Permission.READ, Permission.WORK}),
    Role.SPAWNER: frozenset({Permission.READ, Permission.SPAWN}),
    Role.ORCHESTRATOR: frozenset(
        {Permission.READ, Permission.WORK, Permission.SPAWN, Permission.STEER}
    ),
    Role.VERIFIER: frozenset({Permission.READ, Permission.VERIFY}),
    Role.OPERATOR: frozenset(Permission),
    Role.READ_ONLY: frozenset({Permission.READ}),
    Role.ANYBODY: frozenset({Permission.READ, Permission.WORK, Permission.SPAWN, Permission.STEER}),
}


def is_allowed(role: Role, permission: Permission) -> bool:
    return permission in PERMISSIONS[role]
