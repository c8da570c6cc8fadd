"""Asks the server about a task. It is only asked when something is about to be refused."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Final

from shiftboss.hooks.contract import ContractUnreadable, LocalContract, write_contract

_SECONDS: Final = 2.0
_BYTES_MAX: Final = 10_000_000


class HookServerUnreachable(Exception):
    """There is no answer that could be used."""


def ask(contract: LocalContract, operation: str, **members: object) -> dict[str, Any]:
    """Raises ServerAway."""
    import http.client  # late: most calls of a hook need no server
    from urllib.parse import urlsplit

    if contract.server_url is None:
        raise HookServerUnreachable("the contract names no server")
    try:
        url = urlsplit(contract.server_url)
        kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        connection = kind(url.hostname or "", url.port, timeout=_SECONDS)
        try:
            body = {"swarm_id": contract.swarm_id, "bead_id": contract.bead_id, **members}
            path = f"{url.path.rstrip('/')}/bus/{operation}"
            connection.request("POST", path, json.dumps(body), _headers())
            answer = connection.getresponse()
            text = answer.read(_BYTES_MAX)
        finally:
            connection.close()
        found = json.loads(text) if answer.status == http.client.OK else None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise HookServerUnreachable(str(error)) from error
    if not isinstance(found, dict):
        raise HookServerUnreachable(f"it answered with status {answer.status}")
    return found


def newer_contract(contract: LocalContract, file: str) -> LocalContract | None:
    """A later version than that of the file, which is brought up to date: a scope request that was
    granted takes effect at once. None: there is none, its hash does not fit, or nobody says."""
    try:
        view = ask(contract, "show_handoff")
        members = _with_version_of(contract, view)
        if members is None:
            return None
        write_contract(file, members)
        return LocalContract(members)
    except (HookServerUnreachable, ContractUnreadable, OSError):
        return None


def _with_version_of(contract: LocalContract, view: Mapping[str, Any]) -> dict[str, Any] | None:
    version, handoff, policy = view.get("version"), view.get("handoff"), view.get("policy", {})
    if not isinstance(version, int) or version <= contract.version:
        return None
    if not isinstance(policy, dict):
        return None
    return {
        **contract.members,
        "contract_version": version,
        "contract_hash": view.get("hash"),
        "handoff": handoff,
        "generated": policy.get("generated", []),
    }


def _headers() -> dict[str, str]:
    headers = {"Content-Type": "application/json"}
    token = os.environ.get("SHIFTBOSS_TOKEN")
    if token:
        headers["Authorization"] = f"Bearer {token}"
    return headers
