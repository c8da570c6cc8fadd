"""Keeps an agent working until the server has accepted its work, or it has reported BLOCKED.

This happens a few times only. After that it is up to the orchestrator to deal with an agent that
has ended without a verdict.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Final

from shiftboss.hooks.contract import ContractUnreadable, LocalContract, read_contract
from shiftboss.hooks.server_client import HookServerUnreachable, call_server

_BLOCKS_MAX: Final = 3
_SHOWN_MAX: Final = 5
# The agent waits for an answer, or its work was handed over to a new process.
_MAY_END: Final = ("blocked", "waiting")


def reason_to_continue(
    contract_file: str, given: Mapping[str, Any], *, is_of_run: bool = True
) -> str | None:
    """The work left for the agent before it may end; None if it may end. A hook that no run has
    installed says nothing if the run is over and its server is gone."""
    session = given.get("session_id")
    key = session if isinstance(session, str) else ""
    blocked = _block_count(contract_file, key)
    blocks_max = _BLOCKS_MAX
    try:
        reason = _reason(read_contract(contract_file))
    except (HookServerUnreachable, ContractUnreadable) as error:
        if not is_of_run:
            return None
        blocks_max = 1
        reason = (
            f"Shiftboss does not know whether your work was accepted ({error}). Commit it and call "
            "swarm_complete once more. If that fails, end and say so."
        )
    if reason is None or blocked >= blocks_max:
        return None
    is_counted = _write_count(contract_file, key, blocked + 1)
    # If the count cannot be written, the agent would be kept working forever.
    return reason if is_counted or not given.get("stop_hook_active") else None


def _reason(contract: LocalContract) -> str | None:
    if not contract.claims:
        return None
    task = call_server(contract, "show_task")
    is_ours = task.get("epoch") == contract.epoch and task.get("worker") == contract.worker
    if task.get("status") != "active" or not is_ours or task.get("state") in _MAY_END:
        return None
    claim = call_server(contract, "show_handoff").get("last_claim")
    if not isinstance(claim, dict) or claim.get("epoch") != contract.epoch:
        return _claim_again(contract, "Your task has no verdict yet.")
    if claim.get("state") == "accepted":
        return None
    if claim.get("state") in ("waiting", "taken"):
        return (
            "The server is still verifying your work. Call swarm_complete again with the same "
            "arguments: it waits for the verdict."
        )
    return _claim_again(contract, f"Your work was refused: {_violations(claim)}.")


def _claim_again(contract: LocalContract, status: str) -> str:
    return (
        f"{status} Commit your work to {contract.branch}, call "
        f"swarm_complete({contract.call_arguments}), and fix what it refuses. If the "
        "contract is wrong or cannot be met, call dispute_contract. If you cannot continue, call "
        f"report_milestone with BLOCKED and say why ({contract.name})."
    )


def _violations(claim: Mapping[str, Any]) -> str:
    verdict = claim.get("verdict")
    violations = verdict.get("violations") if isinstance(verdict, dict) else None
    messages = [str(item.get("message")) for item in violations or [] if isinstance(item, dict)]
    return "; ".join(messages[:_SHOWN_MAX]) or "no reason is given"


def _block_count(contract_file: str, session: str) -> int:
    count = _counts(contract_file).get(session, 0)
    return count if isinstance(count, int) else 0


def _counts(contract_file: str) -> dict[str, Any]:
    try:
        with open(f"{contract_file}.stops", "rb") as opened:
            counts = json.load(opened)
    except (OSError, ValueError):
        return {}
    return counts if isinstance(counts, dict) else {}


def _write_count(contract_file: str, session: str, count: int) -> bool:
    """Whether the count could be written."""
    file = f"{contract_file}.stops"
    partial = f"{file}.{os.getpid()}.part"
    try:
        with open(partial, "w", encoding="utf-8") as opened:
            json.dump({**_counts(contract_file), session: count}, opened)
        os.replace(partial, file)
    except OSError:
        return False
    return True
