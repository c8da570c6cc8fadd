"""What people see of a receipt: the checks, and how these were tested."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType

from shiftboss.cli.views.handoffs import check_lines, receipt_check_lines, receipt_summary
from shiftboss.orchestrator.attempt.claiming import refusal_reasons
from shiftboss.protocol.claims.verdicts import CheckName, CheckResult, Outcome, TestTotals
from shiftboss.protocol.handoffs import VerificationPolicy, canonical_json
from tests.unit.claims.test_receipts import KEY, TEXT, body

OLD_RECEIPT = Path(__file__).parents[1] / "claims" / "receipt_format_1.json"


def shown(*parts: RenderableType) -> list[str]:
    console = Console(width=200, color_system=None)
    with console.capture() as capture:
        for part in parts:
            console.print(part)
    return [" ".join(line.split()) for line in capture.get().splitlines()]


def view(text: bytes) -> list[str]:
    signed: dict[str, Any] = json.loads(text)
    return shown(receipt_summary(signed), *receipt_check_lines(signed["receipt"]["checks"]))


@pytest.mark.requirement("OWN-13")
def test_a_receipt_shows_how_its_checks_were_tested() -> None:
    lines = view(TEXT)
    assert (
        "criterion passed 0.0s Tests pass: pytest: exit code 0, 1 skipped, sandbox: bubblewrap"
        in lines
    )
    assert "canary passed Tests pass: pytest: 1 of 1" in lines
    assert "mutants passed Tests pass: pytest: 1 of 2" in lines
    assert lines[-2:] == ["changes not noticed by Tests pass: pytest:", "src/a.py line 4: + to -"]
    policy = "policy canaries: on, mutants: at least 100% noticed, sandbox: auto, network: setup"
    assert policy in lines
    assert not any(line.startswith("allows") for line in lines)
    assert "worker bee, attempt 2" in lines, "as in events: interrupted attempts count here"


@pytest.mark.requirement("OWN-13")
def test_a_receipt_shows_what_could_not_be_verified_and_why() -> None:
    def check(name: CheckName, outcome: Outcome, message: str) -> CheckResult:
        return CheckResult(
            check=name, outcome=outcome, message=message, subject="Tests pass: make t"
        )

    checks = [
        check("canary", "unverifiable", "none of its tests can be sabotaged safely"),
        check("mutants", "passed", "no changed line of the product can be mutated"),
    ]
    lines = view(canonical_json(KEY.sign(body(more_checks=checks))))
    unverifiable = "canary unverifiable Tests pass: make t: none of its tests can be sabotaged"
    assert f"{unverifiable} safely" in lines
    nothing = "mutants passed Tests pass: make t: no changed line of the product can be mutated"
    assert nothing in lines


@pytest.mark.requirement("OWN-13")
def test_a_receipt_shows_what_its_policy_allowed() -> None:
    policy = VerificationPolicy(
        test_removal="allow", expectations_change=["tests/test_prices.py"], generated=["*.lock"]
    )
    lines = view(canonical_json(KEY.sign(body(policy=policy.model_dump(mode="json")))))
    start = lines.index("allows removing and skipping tests of the base (test_removal: allow)")
    assert lines[start + 1 : start + 3] == [
        "other expectations in tests/test_prices.py (expectations_change)",
        "changes of *.lock (generated)",
    ]


@pytest.mark.requirement("OWN-14")
def test_a_receipt_counts_held_out_tests() -> None:
    held_out = CheckResult(
        check="held_out",
        outcome="passed",
        message="1 held-out test passes",
        tests=TestTotals(source="report", ran=1, passed=1),
    )
    lines = view(canonical_json(KEY.sign(body(more_checks=[held_out]))))
    assert "held_out passed 1 test ran, 1 passed" in lines


@pytest.mark.requirement("OWN-13")
def test_a_receipt_of_format_1_is_shown_without_them() -> None:
    lines = view(OLD_RECEIPT.read_bytes())
    assert "criterion passed 0.0s Tests pass: pytest: exit code 0" in lines
    assert not any(line.startswith("policy") for line in lines)


def test_the_checks_of_a_verdict_show_their_message() -> None:
    check = {"check": "canary", "outcome": "failed", "message": "test_a passed", "canaries": [{}]}
    assert shown(*check_lines([check]))[-1] == "canary failed test_a passed"
    assert shown(*check_lines([{**check, "message": ""}]))[-1] == "canary failed"


@pytest.mark.requirement("OWN-13")
def test_changes_that_no_test_noticed_are_listed() -> None:
    changes = [{"path": "a.py", "line": line, "change": "< to <="} for line in range(1, 16)]
    check = {
        "check": "mutants",
        "outcome": "failed",
        "message": "the tests notice none of 20 changes",
        "subject": "Tests pass: pytest",
        "mutants": [*changes, {**changes[0], "killed_by": "test_a"}],
        "mutant_totals": {"tried": 21, "killed": 1},
    }
    listed = [f"a.py line {line}: < to <=" for line in range(1, 11)]
    title = "changes not noticed by Tests pass: pytest:"
    assert shown(*check_lines([check]))[2:] == [title, *listed, "and 10 more"]
    few = {**check, "mutants": changes[:2], "mutant_totals": {"tried": 2, "killed": 0}}
    assert shown(*check_lines([few]))[2:] == [title, *listed[:2]]


@pytest.mark.requirement("OWN-13")
def test_an_agent_reads_the_changes_that_its_tests_do_not_notice() -> None:
    mutant = {"path": "a.py", "line": 3, "change": "+ to -", "killed_by": None}
    checks = [
        {"check": "mutants", "outcome": outcome, "subject": outcome, "mutants": [mutant]}
        for outcome in ("passed", "failed")
    ]
    assert refusal_reasons({"checks": checks}) == [
        "changes not noticed by failed:\na.py line 3: + to -"
    ]
