"""The part of the port for what the servers of a deployment share."""

from __future__ import annotations

from typing import Protocol

from shiftboss.rules.access.tokens import LoginCode, StoredToken
from shiftboss.rules.deployment.records import DeploymentServer, StoredKey, StoredPolicy


class DeploymentTransaction(Protocol):
    """Tokens, signing keys, the policy and the servers. Writes use the partition "". Whoever
    changes what servers keep in memory calls `announce_settings` in the same transaction."""

    def announce_settings(self) -> None:
        """With the commit, the other servers read the settings again. This one does so itself."""
        ...

    # -- tokens
    def tokens(self) -> list[StoredToken]:
        """Those that are neither revoked nor deleted, by name and age. Some may have expired."""
        ...

    def tokens_after(self, token_id: str, limit: int) -> list[StoredToken]:
        """All of them, revoked ones included, in the order of their ids."""
        ...

    def tokens_named(self, name: str) -> list[StoredToken]:
        """Those that are not revoked, the oldest first."""
        ...

    def token(self, token_id: str) -> StoredToken | None: ...

    def add_token(self, token: StoredToken) -> None: ...

    def set_token_expiry(self, token_id: str, expires_at_ms: int | None) -> bool: ...

    def revoke_token(self, token_id: str, at_ms: int, by: str) -> bool:
        """False, without a change, if it is revoked already."""
        ...

    def forget_tokens(self, before_ms: int, limit: int) -> int:
        """Delete tokens that were revoked or expired before then; how many."""
        ...

    # -- logging in
    def add_login_code(self, code: LoginCode) -> None: ...

    def has_login_code(self, digest: bytes) -> bool: ...

    def take_login_code(self, digest: bytes) -> LoginCode | None:
        """Delete the code. None if there is none: it was never made, or is used up."""
        ...

    def forget_login_codes(self, now_ms: int) -> None:
        """Delete those that have expired."""
        ...

    def forget_older_login_codes(self, name: str, kept: int) -> None:
        """All codes of the name but the newest."""

    def login_code_count(self) -> int: ...

    # -- keys
    def signing_keys(self) -> list[StoredKey]:
        """The oldest first."""
        ...

    def signing_key(self, key_id: str) -> StoredKey | None: ...

    def add_signing_key(self, key: StoredKey) -> bool:
        """False, without a change, if the store has it."""
        ...

    def retire_signing_key(self, key_id: str, at_ms: int, by: str) -> bool: ...

    # -- the policy
    def current_policy(self) -> StoredPolicy | None: ...

    def current_policy_version(self) -> int:
        """0 if there is none."""
        ...

    def policy_version(self, version: int) -> StoredPolicy | None: ...

    def policies_before(self, version: int, limit: int) -> list[StoredPolicy]:
        """The newest first."""
        ...

    def add_policy(self, policy: StoredPolicy) -> bool:
        """False, without a change, if the version is taken."""
        ...

    # -- servers
    def servers(self) -> list[DeploymentServer]:
        """By their start."""
        ...

    def put_server(self, server: DeploymentServer) -> None: ...

    def forget_servers(self, seen_before_ms: int) -> int:
        """Delete those that were not seen since; how many."""
        ...
