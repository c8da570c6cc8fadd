"""What people see of a receipt: the checks, and how these were tested."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType

from shiftboss.cli.views.handoffs import checks_table, receipt_summary
from tests.unit.claims.test_receipts import TEXT

OLD_RECEIPT = Path(__file__).parents[1] / "claims" / "receipt_format_1.json"


def shown(*parts: RenderableType) -> list[str]:
    console = Console(width=200, color_system=None)
    with console.capture() as capture:
        for part in parts:
            console.print(part)
    return [" ".join(line.split()) for line in capture.get().splitlines()]


def view(text: bytes) -> list[str]:
    signed: dict[str, Any] = json.loads(text)
    return shown(receipt_summary(signed), checks_table(signed["receipt"]["checks"]))


@pytest.mark.requirement("OWN-13")
def test_a_receipt_shows_how_its_checks_were_tested() -> None:
    lines = view(TEXT)
    assert (
        "criterion passed 0.0s Tests pass: pytest: exit code 0, 3 tests ran, 3 passed, 1 skipped, "
        "sandbox: bubblewrap" in lines
    )
    assert "canary passed Tests pass: pytest: 1 of 1 sabotaged tests failed as they must" in lines
    assert "mutants passed Tests pass: pytest: 1 of 2 mutants noticed" in lines
    policy = "policy canaries: on, mutants: at least 100% noticed, sandbox: auto, network: setup"
    assert policy in lines


@pytest.mark.requirement("OWN-13")
def test_a_receipt_of_format_1_is_shown_without_them() -> None:
    lines = view(OLD_RECEIPT.read_bytes())
    assert "criterion passed 0.0s Tests pass: pytest: exit code 0" in lines
    assert not any(line.startswith("policy") for line in lines)


def test_the_checks_of_a_verdict_show_their_message() -> None:
    check = {"check": "canary", "outcome": "failed", "message": "test_a passed", "canaries": [{}]}
    assert shown(checks_table([check]))[-1] == "canary failed test_a passed"
    assert shown(checks_table([{**check, "message": ""}]))[-1] == "canary failed"
