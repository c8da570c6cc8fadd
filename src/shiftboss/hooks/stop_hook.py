"""When an agent wants to end: not before the server has accepted its work, or it has said why not.

It is held back a few times only. An agent that ends without a verdict is the launcher's affair.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Final

from shiftboss.hooks.contract import ContractUnreadable, LocalContract, read_contract
from shiftboss.hooks.server_client import HookServerUnreachable, ask

_BLOCKS_MAX: Final = 3
_SHOWN_MAX: Final = 5
# It waits for an answer, or its work was handed to a fresh process.
_RESTING: Final = ("blocked", "waiting")


def reason_to_continue(contract_file: str, said: Mapping[str, Any]) -> str | None:
    """What the agent is told instead of an end. None: it may end."""
    session = said.get("session_id")
    key = session if isinstance(session, str) else ""
    blocked = _blocks(contract_file, key)
    most = _BLOCKS_MAX
    try:
        reason = _reason(read_contract(contract_file))
    except (HookServerUnreachable, ContractUnreadable) as error:
        most = 1
        reason = (
            f"Shiftboss cannot tell whether your work was accepted ({error}). Commit it, and call "
            "swarm_complete once more; if that fails, end and say so."
        )
    if reason is None or blocked >= most:
        return None
    counted = _count(contract_file, key, blocked + 1)
    # Without a count it would be held back for ever.
    return reason if counted or not said.get("stop_hook_active") else None


def _reason(contract: LocalContract) -> str | None:
    if not contract.claims:
        return None
    task = ask(contract, "show_task")
    is_ours = task.get("epoch") == contract.epoch and task.get("worker") == contract.worker
    if task.get("status") != "active" or not is_ours or task.get("state") in _RESTING:
        return None
    claim = ask(contract, "show_handoff").get("last_claim")
    if not isinstance(claim, dict) or claim.get("epoch") != contract.epoch:
        return _not_claimed(contract, "Your task has no verdict yet.")
    if claim.get("state") == "accepted":
        return None
    if claim.get("state") in ("waiting", "taken"):
        return (
            "The server is still verifying your work. Call swarm_complete again with the same "
            "words: it waits for the verdict."
        )
    return _not_claimed(contract, f"Your work was refused: {_violations(claim)}.")


def _not_claimed(contract: LocalContract, what: str) -> str:
    return (
        f"{what} Commit your work to {contract.branch}, call "
        f"swarm_complete({contract.call_words}), and mend what it refuses. If you cannot go on, "
        f"say why: report_milestone with BLOCKED ({contract.name})."
    )


def _violations(claim: Mapping[str, Any]) -> str:
    verdict = claim.get("verdict")
    found = verdict.get("violations") if isinstance(verdict, dict) else None
    messages = [str(one.get("message")) for one in found or [] if isinstance(one, dict)]
    return "; ".join(messages[:_SHOWN_MAX]) or "it says no more"


def _blocks(contract_file: str, session: str) -> int:
    count = _counts(contract_file).get(session, 0)
    return count if isinstance(count, int) else 0


def _counts(contract_file: str) -> dict[str, Any]:
    try:
        with open(f"{contract_file}.stops", "rb") as opened:
            counts = json.load(opened)
    except (OSError, ValueError):
        return {}
    return counts if isinstance(counts, dict) else {}


def _count(contract_file: str, session: str, count: int) -> bool:
    """Whether it could be written down."""
    file = f"{contract_file}.stops"
    partial = f"{file}.{os.getpid()}.part"
    try:
        with open(partial, "w", encoding="utf-8") as opened:
            json.dump({**_counts(contract_file), session: count}, opened)
        os.replace(partial, file)
    except OSError:
        return False
    return True
