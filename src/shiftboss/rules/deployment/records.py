"""The records of a deployment, as they are stored."""

from __future__ import annotations

from typing import NamedTuple


class StoredKey(NamedTuple):
    """The public half of a key that signs receipts. A retired key signs no more; what it has signed
    stays genuine."""

    key_id: str
    public_key: str
    added_at_ms: int
    added_by: str
    retired_at_ms: int | None = None
    retired_by: str | None = None


class StoredPolicy(NamedTuple):
    """One version of the policy. `body` is the text of the file; `source` is where it came from."""

    version: int
    body: str
    sha256: str
    applied_at_ms: int
    applied_by: str
    source: str


class DeploymentServer(NamedTuple):
    """A server on the database. `facts` is a JSON object of what the servers of a deployment should
    agree on, and what an operator wants to know: key, digest of the operator's token, policy, skew
    of the clock, whether it verifies."""

    server_id: str
    host: str
    address: str
    version: str
    started_at_ms: int
    seen_at_ms: int
    stopped_at_ms: int | None
    facts: str
