"""Rows of handoffs for the tests of the stores."""

from __future__ import annotations

from typing import Any

from shiftboss.rules.claims.claims import Claim
from shiftboss.rules.handoffs.handoffs import Handoff, Reservation, ScopeRequest, Signal
from shiftboss.store.handoffs.port import ReceiptRow
from tests.conformance.store.rows import SWARM

NOW = 1_800_000_000_000


def handoff(task_id: str = "t", version: int = 1, **changes: Any) -> Handoff:
    whole = Handoff(
        swarm_id=SWARM,
        task_id=task_id,
        version=version,
        hash="a" * 64,
        body='{"what": "Prüfung ✓"}',
        repo="/repos/straße",
        base_commit="b" * 40,
        branch="task",
        target="main",
        policy="{}",
        strategy="file-based",
        reason="spawned",
        created_at_ms=NOW,
        said="c" * 64,
        repo_id="/repos/straße/.git",
        target_base="d" * 40,
    )
    return whole._replace(**changes)


def claim(claim_id: int = 1, task_id: str = "t", **changes: Any) -> Claim:
    whole = Claim(
        swarm_id=SWARM,
        task_id=task_id,
        claim_id=claim_id,
        epoch=2,
        worker="w",
        state="waiting",
        contract_version=1,
        words='{"commit": null, "summary": "fertig ✓"}',
        asked_at_ms=NOW,
    )
    return whole._replace(**changes)


def taken(claim_id: int = 1, until_ms: int = NOW + 5, **changes: Any) -> Claim:
    return claim(claim_id, state="taken", taken_by="v", taken_until_ms=until_ms)._replace(**changes)


def ended(claim_id: int = 1, state: str = "refused", **changes: Any) -> Claim:
    over = claim(claim_id, state=state, taken_by="v", verdict='{"a": 1}', ended_at_ms=NOW + 9)
    return over._replace(**changes)


def reservation(task_id: str = "t", **changes: Any) -> Reservation:
    return Reservation(SWARM, task_id, "/repo", ["src/**", "ä b.py"])._replace(**changes)


def scope_request(**changes: Any) -> ScopeRequest:
    whole = ScopeRequest(SWARM, 0, "t", 2, "w", ["a b.py", "ü.py"], "needed", "open", NOW)
    return whole._replace(**changes)


def receipt(number: int = 1, **changes: Any) -> ReceiptRow:
    whole = ReceiptRow(
        f"rcpt-{number}", SWARM, "t", "Titel ✓", '{"r": 1}', NOW, "/repo/.git", f"{number:040x}"
    )
    return whole._replace(**changes)


def signal(number: int = 1, **changes: Any) -> Signal:
    whole = Signal(
        strategy="file-based",
        at_ms=NOW,
        swarm_id=SWARM,
        task_id="t",
        epoch=1,
        number=number,
        kind="refusal",
        impact="negative",
        violation_type="scope_creep",
        details='{"reason": "é"}',
    )
    return whole._replace(**changes)
