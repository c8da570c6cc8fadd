"""The rows of a deployment: tokens, signing keys, policies, servers."""

from __future__ import annotations

from shiftboss.rules.access.tokens import LoginCode, StoredToken
from shiftboss.rules.deployment.records import DeploymentServer, StoredKey, StoredPolicy
from shiftboss.store.transaction_part import Row, TransactionPart


class DeploymentRows(TransactionPart):
    """Implements `shiftboss.store.deployment.port.DeploymentTransaction`."""

    def announce_settings(self) -> None:
        self._session.announce_settings()

    # -- tokens

    def tokens(self) -> list[StoredToken]:
        return [_token(row) for row in self._session.fetch_all("tokens", {})]

    def tokens_after(self, token_id: str, limit: int) -> list[StoredToken]:
        rows = self._session.fetch_all("tokens_after", {"token_id": token_id, "limit": limit})
        return [_token(row) for row in rows]

    def tokens_named(self, name: str) -> list[StoredToken]:
        return [_token(row) for row in self._session.fetch_all("tokens_named", {"name": name})]

    def token(self, token_id: str) -> StoredToken | None:
        row = self._session.fetch_one("token", {"token_id": token_id})
        return None if row is None else _token(row)

    def add_token(self, token: StoredToken) -> None:
        self._write("add_token", token._asdict())

    def set_token_expiry(self, token_id: str, expires_at_ms: int | None) -> bool:
        parameters = {"token_id": token_id, "expires_at_ms": expires_at_ms}
        return self._change("set_token_expiry", parameters) == 1

    def revoke_token(self, token_id: str, at_ms: int, by: str) -> bool:
        return self._change("revoke_token", {"token_id": token_id, "at_ms": at_ms, "by": by}) == 1

    def forget_tokens(self, before_ms: int, limit: int) -> int:
        return self._change("forget_tokens", {"before_ms": before_ms, "limit": limit})

    # -- logging in

    def add_login_code(self, code: LoginCode) -> None:
        self._write("add_login_code", code._asdict())

    def has_login_code(self, digest: bytes) -> bool:
        return self._session.fetch_one("has_login_code", {"digest": digest}) is not None

    def take_login_code(self, digest: bytes) -> LoginCode | None:
        self.wrote = True
        row = self._session.fetch_one("take_login_code", {"digest": digest})
        return None if row is None else LoginCode._make((bytes(row[0]), *row[1:]))

    def forget_login_codes(self, now_ms: int) -> None:
        self._write("forget_login_codes", {"now_ms": now_ms})

    def forget_older_login_codes(self, name: str, kept: int) -> None:
        self._write("forget_older_login_codes", {"name": name, "kept": kept})

    def login_code_count(self) -> int:
        row = self._session.fetch_one("login_code_count", {})
        return 0 if row is None else int(row[0])

    # -- keys

    def signing_keys(self) -> list[StoredKey]:
        return [StoredKey._make(row) for row in self._session.fetch_all("signing_keys", {})]

    def signing_key(self, key_id: str) -> StoredKey | None:
        row = self._session.fetch_one("signing_key", {"key_id": key_id})
        return None if row is None else StoredKey._make(row)

    def add_signing_key(self, key: StoredKey) -> bool:
        return self._change("add_signing_key", key._asdict()) == 1

    def retire_signing_key(self, key_id: str, at_ms: int, by: str) -> bool:
        parameters = {"key_id": key_id, "at_ms": at_ms, "by": by}
        return self._change("retire_signing_key", parameters) == 1

    # -- the policy

    def current_policy(self) -> StoredPolicy | None:
        row = self._session.fetch_one("current_policy", {})
        return None if row is None else StoredPolicy._make(row)

    def current_policy_version(self) -> int:
        row = self._session.fetch_one("current_policy_version", {})
        return 0 if row is None else int(row[0])

    def policy_version(self, version: int) -> StoredPolicy | None:
        row = self._session.fetch_one("policy_version", {"version": version})
        return None if row is None else StoredPolicy._make(row)

    def policies_before(self, version: int, limit: int) -> list[StoredPolicy]:
        rows = self._session.fetch_all("policies_before", {"version": version, "limit": limit})
        return [StoredPolicy._make(row) for row in rows]

    def add_policy(self, policy: StoredPolicy) -> bool:
        return self._change("add_policy", policy._asdict()) == 1

    # -- servers

    def servers(self) -> list[DeploymentServer]:
        return [DeploymentServer._make(row) for row in self._session.fetch_all("servers", {})]

    def put_server(self, server: DeploymentServer) -> None:
        self._write("put_server", server._asdict())

    def forget_servers(self, seen_before_ms: int) -> int:
        return self._change("forget_servers", {"seen_before_ms": seen_before_ms})


_DIGEST_COLUMN = StoredToken._fields.index("digest")


def _token(row: Row) -> StoredToken:
    """psycopg may return a view of its buffer."""
    digest = bytes(row[_DIGEST_COLUMN])
    return StoredToken._make((*row[:_DIGEST_COLUMN], digest, *row[_DIGEST_COLUMN + 1 :]))
