"""Asks the server about a task, before a hook refuses something or lets an agent end."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Final

from shiftboss.defaults import TOKEN_VARIABLE
from shiftboss.hooks.contract import ContractUnreadable, LocalContract, write_contract

_SECONDS: Final = 2.0
_BYTES_MAX: Final = 10_000_000


class HookServerUnreachable(Exception):
    """The server gave no usable answer."""


def call_server(contract: LocalContract, operation: str, **members: object) -> dict[str, Any]:
    """Call an operation of the bus for the task, at the first of its servers that answers. Raises
    HookServerUnreachable."""
    body = {"swarm_id": contract.swarm_id, "bead_id": contract.bead_id, **members}
    failure = HookServerUnreachable("the contract names no server")
    for address in (contract.server_url or "").split(","):
        try:
            if address:
                return _call(address, operation, json.dumps(body))
        except HookServerUnreachable as error:
            failure = error
    raise failure


def _call(address: str, operation: str, body: str) -> dict[str, Any]:
    import http.client  # late: most hooks need no server
    from urllib.parse import urlsplit

    from shiftboss.system.tls import open_connection, tls_problem

    try:
        url = urlsplit(address)
        connection = open_connection(url, _SECONDS)
        try:
            path = f"{url.path.rstrip('/')}/bus/{operation}"
            connection.request("POST", path, body, _headers())
            response = connection.getresponse()
            text = response.read(_BYTES_MAX)
        finally:
            connection.close()
        answer = json.loads(text) if response.status == http.client.OK else None
    except (OSError, ValueError, RecursionError, http.client.HTTPException) as error:
        problem = tls_problem(error, address)
        raise HookServerUnreachable(problem.detail if problem else str(error)) from error
    if not isinstance(answer, dict):
        raise HookServerUnreachable(f"the server answered with status {response.status}")
    return answer


def newer_contract(contract: LocalContract, file: str) -> LocalContract | None:
    """The contract in its current version if it is newer than that of the file, which is updated: a
    granted scope request takes effect at once. None: there is no newer version, its hash does not
    match, or the server cannot be reached."""
    try:
        members = _newer_members(contract, call_server(contract, "show_handoff"))
        if members is None:
            return None
        write_contract(file, members)
        return LocalContract(members)
    except (HookServerUnreachable, ContractUnreadable, OSError):
        return None


def _newer_members(contract: LocalContract, view: Mapping[str, Any]) -> dict[str, Any] | None:
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
    token = os.environ.get(TOKEN_VARIABLE)
    if token:
        headers["Authorization"] = f"Bearer {token}"
    return headers
