"""What the runs of mutants say about the tests of a criterion."""

from __future__ import annotations

import pytest

from shiftboss.protocol.claims.verdicts import CheckResult, Mutant, MutantTotals, Violation
from shiftboss.protocol.handoffs import MutantsRequired
from shiftboss.rules.claims.mutants.mutation import Mutation
from shiftboss.rules.claims.mutants.outcome import (
    MutantOutcome,
    MutantRun,
    judged_together,
    mutant_verdict,
    reported,
    runs_of,
)
from shiftboss.rules.claims.test_runs.judgement import CommandRun
from shiftboss.rules.claims.verdicts import CheckOutcome, passed, totals
from tests.ended_runs import ended

pytestmark = pytest.mark.requirement("OWN-13")

MUTATION = Mutation(3, "returns None", 0, 1, "", "return", "f")


def runs(killed: int = 0, survived: int = 0, at_once: int = 0) -> list[MutantRun]:
    made = [MutantRun("a.py", MUTATION, "killed", "test_a")] * killed
    made += [MutantRun("a.py", MUTATION, "survived")] * survived
    if at_once:
        made.append(MutantRun("a.py", MUTATION, "killed", "test_b", at_once))
    return made


@pytest.mark.parametrize(
    ("made", "outcome", "message"),
    [
        (runs(killed=7, survived=2), "passed", "7 of 9 mutants noticed"),
        (runs(killed=1), "passed", "1 of 1 mutant noticed"),
        (runs(at_once=7), "passed", "7 changes at once noticed"),
        (
            runs(killed=1, survived=2, at_once=7),
            "passed",
            "1 of 3 mutants noticed, 7 changes at once noticed",
        ),
        (
            runs(survived=5),
            "failed",
            "the tests notice none of 5 changes of the changed lines: they do not test this work",
        ),
        (runs(survived=3), "failed", None),
        (
            runs(survived=2),
            "passed",
            "the tests do not notice any of 2 changes of the changed lines, too few to judge by",
        ),
        (runs(survived=1), "passed", None),
        ([MutantRun("a.py", MUTATION, "invalid")] * 9, "unverifiable", None),
        ([], "unverifiable", "no mutant could be run in the time that there was"),
    ],
)
def test_a_claim_is_refused_if_no_change_is_noticed(
    made: list[MutantRun], outcome: str, message: str | None
) -> None:
    verdict = mutant_verdict(made, None)
    assert verdict.outcome == outcome
    assert message in (None, verdict.message)


@pytest.mark.parametrize(
    ("made", "outcome"),
    [
        (runs(killed=3, survived=2), "passed"),
        (runs(killed=59, survived=41), "failed"),
        (runs(killed=60, survived=40), "passed"),
        (runs(survived=1), "failed"),
        ([], "unverifiable"),
        ([MutantRun("a.rs", MUTATION, "invalid")], "unverifiable"),
    ],
)
def test_a_share_of_the_mutants_can_be_required(made: list[MutantRun], outcome: str) -> None:
    assert mutant_verdict(made, MutantsRequired(require=0.6)).outcome == outcome


@pytest.mark.parametrize(
    ("path", "run", "outcome", "killed_by"),
    [
        ("a.py", ended(0), "survived", None),
        ("a.py", ended(1, "test_a"), "killed", "test_a"),
        ("a.py", ended(2), "killed", "exit code 2"),
        ("a.py", ended(None, timed_out=True), "killed", "timed out"),
        ("a.py", ended(None), "not_run", None),
        ("a.py", None, "not_run", None),
        ("a.py", ended(1, output="SyntaxError: bad"), "killed", "exit code 1"),
        ("a.rs", ended(101, output="error: could not compile `a`"), "invalid", None),
        ("a.go", ended(1, output="FAIL\ta [build failed]"), "invalid", None),
        ("a.ts", ended(1, output="a.ts(1,2): error TS2322: no"), "invalid", None),
        ("a.py", ended(1, "t" * 1000), "killed", "t" * 300),
        ("a.go", ended(1, "TestA", output="--- FAIL: TestA"), "killed", "TestA"),
    ],
)
def test_a_compiler_is_no_test(
    path: str, run: CommandRun | None, outcome: MutantOutcome, killed_by: str | None
) -> None:
    assert runs_of([(path, MUTATION)], run) == [MutantRun(path, MUTATION, outcome, killed_by)]


def test_changes_at_once_survive_one_by_one_and_are_killed_as_one() -> None:
    several = [("a.py", MUTATION), ("b.py", MUTATION)]
    assert [run.outcome for run in runs_of(several, ended(0))] == ["survived"] * 2
    assert runs_of(several, ended(None)) == []
    assert runs_of([*several, ("c.go", MUTATION)], ended(1, output="[build failed]")) == []
    killed = runs_of(several, ended(1, "test_a"))
    assert reported(killed) == [
        Mutant(
            path="a.py",
            line=3,
            change="2 changes at once, the first: returns None",
            killed_by="test_a",
        )
    ]


def test_survivors_are_reported_first_and_all_are_counted() -> None:
    mutants = reported(runs(killed=2, survived=1))
    assert [mutant.killed_by for mutant in mutants] == [None, "test_a", "test_a"]
    assert totals(mutants) == MutantTotals(tried=3, killed=2)


def check(criterion: str, *, killed_by: str | None) -> CheckOutcome:
    mutant = Mutant(path="a.py", line=3, change="returns None", killed_by=killed_by)
    result = CheckResult(
        check="mutants",
        outcome="failed" if killed_by is None else "passed",
        message="none noticed",
        subject=criterion,
        mutants=[mutant],
    )
    violations = [Violation(check="mutants", message="none noticed", hint="")]
    return CheckOutcome(result, violations if killed_by is None else [])


def test_the_tests_of_one_criterion_are_enough() -> None:
    """A second criterion may run the tests of something else."""
    other = passed("scope", "fine")
    unnoticed = check("Tests pass: other", killed_by=None)
    together = judged_together([other, unnoticed, check("Tests pass: own", killed_by="test_a")])
    assert together[0] == other
    assert together[1].result.outcome == "passed"
    assert together[1].violations == ()
    assert together[1].result.message.endswith("another criterion do: Tests pass: own")
    assert judged_together([other, unnoticed]) == [other, unnoticed]
