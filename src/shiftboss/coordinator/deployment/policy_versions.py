"""Use cases of the policy: put a version in force, show and list versions."""

from __future__ import annotations

from hashlib import sha256

from shiftboss.errors import StalePolicy, UnknownPolicy
from shiftboss.evidence.survey.policy_file import PolicyText
from shiftboss.protocol.contract.contract_requests import PolicyList, PolicyVersionView
from shiftboss.protocol.fields import wire_time
from shiftboss.protocol.policy import Policy
from shiftboss.rules.deployment.records import StoredPolicy
from shiftboss.store.port import Transaction

# Below every version that can be asked for.
_VERSIONS_END = 2**53


def apply(
    tx: Transaction, text: PolicyText, expected_version: int | None, now_ms: int
) -> StoredPolicy:
    """Put the policy in force as the next version. Raises StalePolicy if it was made for another
    version than the one in force. A repeat changes nothing."""
    # A task that locks a repo has done so by the old policy, or does it by the new one.
    tx.hold_repos()
    current = tx.current_policy()
    if current is not None and PolicyText(current.body, current.source) == text:
        return current
    version = 0 if current is None else current.version
    if current is not None and expected_version not in (None, version):
        raise StalePolicy(expected_version or 0, version, current.applied_by)
    if current is None and expected_version not in (None, 0):
        raise _no_version(expected_version or 0)
    applied = StoredPolicy(
        version + 1,
        text.body,
        sha256(text.body.encode()).hexdigest(),
        now_ms,
        tx.actor.name,
        text.source,
    )
    if not tx.add_policy(applied):
        # Another server has just added it, and was not seen above.
        raise StalePolicy(version, version + 1, "another server")
    tx.announce_settings()
    return applied


def locked_without_policy(tx: Transaction, policy: Policy) -> list[str]:
    """The message about locks of repos that the policy does not have."""
    return [
        f"{lock.repo} is locked for {lock.task_id} of {lock.swarm_id} and no longer in the policy: "
        "the lock blocks nothing until the repo is back"
        for lock in tx.repo_locks()
        if lock.repo not in policy.repos
    ]


def version_of(tx: Transaction, version: int) -> StoredPolicy:
    stored = tx.policy_version(version)
    if stored is None:
        raise _no_version(version)
    return stored


def list_versions(tx: Transaction, before: int | None, limit: int) -> PolicyList:
    stored = tx.policies_before(before or _VERSIONS_END, limit)
    last = stored[-1].version if len(stored) == limit else 1
    return PolicyList(
        versions=[PolicyVersionView(**view_members(each)) for each in stored],
        next_before=last if last > 1 else None,
    )


def view_members(stored: StoredPolicy) -> dict[str, str | int]:
    return {
        "version": stored.version,
        "applied_at": wire_time(stored.applied_at_ms),
        "applied_by": stored.applied_by,
        "source": stored.source,
        "sha256": stored.sha256,
    }


def _no_version(version: int) -> UnknownPolicy:
    return UnknownPolicy(
        f"there is no version {version} of the policy",
        field="version",
        hint="`shiftboss policy history` lists them",
    )
