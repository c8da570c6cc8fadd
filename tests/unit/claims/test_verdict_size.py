"""A verdict fits into a request, whatever a worker's commit contains."""

from __future__ import annotations

from shiftboss.protocol.claims.verdicts import Change, CheckResult, Verdict, Violation
from shiftboss.rules.claims.verdicts import VERDICT_BYTES_MAX, truncate_verdict
from shiftboss.server.http.requests import BODY_BYTES_MAX


def verdict(
    *, outputs: int = 1, output: str = "ok", changes: int = 1, violations: int = 0
) -> Verdict:
    check = CheckResult(check="criterion", outcome="failed", message="no", output_tail=output)
    return Verdict(
        accepted=False,
        base_commit="0" * 40,
        commit="1" * 40,
        tree="2" * 40,
        checks=[check] * outputs,
        violations=[
            Violation(check="scope", message=f"{number} " + "long " * 50, hint="change it back")
            for number in range(violations)
        ],
        changes=[Change(path=f"src/{number}.py", status="M") for number in range(changes)],
        files_changed=changes,
    )


def size(verdict: Verdict) -> int:
    return len(verdict.model_dump_json().encode())


def test_a_verdict_that_fits_is_unchanged() -> None:
    assert truncate_verdict(verdict(changes=1000)) == verdict(changes=1000)


def test_the_beginning_of_outputs_is_cut_first() -> None:
    cut = truncate_verdict(verdict(outputs=50, output="\x01" * 65_000 + "the end", changes=1000))
    assert size(cut) <= VERDICT_BYTES_MAX < BODY_BYTES_MAX
    assert all((result.output_tail or "").endswith("the end") for result in cut.checks)
    assert cut.files_changed == 1000


def test_omitted_violations_are_counted() -> None:
    cut = truncate_verdict(verdict(violations=20_000))
    assert size(cut) <= VERDICT_BYTES_MAX
    *named, more = cut.violations
    assert named == verdict(violations=20_000).violations[: len(named)]
    assert more.message == f"and {20_000 - len(named)} more violations"
    assert not cut.accepted
