"""Spawn requests that are the same: the digest that is stored with a contract."""

from __future__ import annotations

import hashlib
from typing import Final

from shiftboss.protocol.handoff_requests import SpawnSubtaskRequest
from shiftboss.protocol.handoffs import canonical_json

# They ask for something else than a contract.
_NOT_OF_CONTRACT: Final = {"submit", "merges"}
# What digests covered when they included defaults. These lists never change.
_POLICY_WITH_DEFAULTS: Final = {
    "command_megabytes",
    "command_seconds",
    "environment",
    "generated",
    "scope_requests",
    "setup",
    "target_commits",
    "test_removal",
    "unverifiable",
}
_REQUEST_WITH_DEFAULTS: Final = {
    "base",
    "bead_id",
    "blocked_contact",
    "branch",
    "dependencies_completed",
    "epic_id",
    "epic_summary",
    "files",
    "files_readonly",
    "landing",
    "repo",
    "review",
    "strategy",
    "subtask_description",
    "subtask_title",
    "success_criteria",
    "swarm_id",
    "target",
    "traits",
}


def request_digest(request: SpawnSubtaskRequest) -> str:
    """Identifies what a request says about the contract. Held-out tests are part of it, although
    they are in no handoff. Defaults are not, so that a member which a later version adds does not
    change the digests of requests without it."""
    content = request.model_dump(mode="json", exclude=_NOT_OF_CONTRACT, exclude_defaults=True)
    return _hash(content)


def made_contract(request: SpawnSubtaskRequest, digest: str) -> bool:
    """Whether the contract with this digest was made by such a request, also by a version whose
    digests included defaults."""
    return digest == request_digest(request) or digest == _digest_with_defaults(request)


def _digest_with_defaults(request: SpawnSubtaskRequest) -> str | None:
    """None for a request that those versions could not have got."""
    members = request.model_dump(mode="json", exclude=_NOT_OF_CONTRACT, exclude_defaults=True)
    policy = members.pop("policy", {})
    if members.keys() - _REQUEST_WITH_DEFAULTS or policy.keys() - _POLICY_WITH_DEFAULTS:
        return None
    content = request.model_dump(mode="json", include=_REQUEST_WITH_DEFAULTS)
    content["policy"] = request.policy.model_dump(mode="json", include=_POLICY_WITH_DEFAULTS)
    return _hash(content)


def _hash(content: dict[str, object]) -> str:
    return hashlib.sha256(canonical_json(content)).hexdigest()
