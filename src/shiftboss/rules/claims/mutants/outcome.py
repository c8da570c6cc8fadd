"""What the runs of mutants say about the tests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from shiftboss.protocol.claims.verdicts import Mutant
from shiftboss.protocol.handoffs import MutantsRequired
from shiftboss.rules.claims.mutants.mutation import LocatedMutation, Mutation
from shiftboss.rules.claims.mutants.sources import is_compiled
from shiftboss.rules.claims.refusal_advice import DISPUTE
from shiftboss.rules.claims.test_runs.judgement import CommandRun, Judgement
from shiftboss.rules.claims.verdicts import CheckOutcome
from shiftboss.rules.documents.wording import pluralize

MutantOutcome = Literal["killed", "survived", "invalid", "not_run"]

# One or two mutants may be equivalent: no test could tell them from the original.
JUDGED_MIN: Final = 3
# The names of tests come from the work, and may be of any length.
KILLER_CHARACTERS_MAX: Final = 300
HINT: Final = (
    "add tests that fail without this work; for a test file that the contract does not own, call "
    f"request_scope; if the change cannot be tested, {DISPUTE}"
)
NOT_RUN: Final = "no mutant could be run in the time that there was"
NOTHING_TO_CHANGE: Final = "no changed line of the product can be mutated"

# What compilers, bundlers and interpreters print when a file is not a program.
_COMPILE_ERROR: Final = re.compile(
    r"\[(?:build|setup) failed\]|could not compile|error\[E\d+\]|\berror TS\d+"
    r"|\bSyntaxError\b|Transform failed|Build failed with|Unexpected token"
)


class MutantRun(NamedTuple):
    """One run of the criterion. `at_once` counts the mutations in it, of which `mutation` is the
    first."""

    path: str
    mutation: Mutation
    outcome: MutantOutcome
    killed_by: str | None = None
    at_once: int = 1


def runs_of(mutations: Sequence[LocatedMutation], run: CommandRun | None) -> list[MutantRun]:
    """What a run of the criterion says about the mutations that it was run with; the run is None if
    the setup failed.

    If it failed with several of them, nobody knows which of them did it: that is one run with all
    of them. If it could not be run with several, that says nothing about any of them.
    """
    outcome = _outcome([path for path, _ in mutations], run)
    if run is not None and outcome == "killed":
        path, mutation = mutations[0]
        return [MutantRun(path, mutation, outcome, _killer(run), len(mutations))]
    if outcome != "survived" and len(mutations) > 1:
        return []
    return [MutantRun(path, mutation, outcome) for path, mutation in mutations]


def mutant_verdict(runs: Sequence[MutantRun], required: MutantsRequired | None) -> Judgement:
    killed = [run for run in runs if run.outcome == "killed"]
    survived = [run for run in runs if run.outcome == "survived"]
    if not killed and not survived:
        return Judgement("unverifiable", NOT_RUN)
    if required is not None:
        return _share(len(killed), len(survived), required.require)
    if killed:
        return Judgement("passed", _noticed(killed, len(survived)))
    if len(survived) >= JUDGED_MIN:
        return Judgement(
            "failed",
            f"the tests notice none of {len(survived)} changes of the changed lines: "
            "they do not test this work",
        )
    changes = "1 change" if len(survived) == 1 else f"any of {len(survived)} changes"
    return Judgement(
        "passed", f"the tests do not notice {changes} of the changed lines, too few to judge by"
    )


def reported(runs: Sequence[MutantRun]) -> list[Mutant]:
    """The mutants that were run, for the verdict. Those that survived come first: they show what
    the tests do not check."""
    survivors_first = sorted(runs, key=lambda run: run.outcome != "survived")
    return [
        Mutant(
            path=run.path,
            line=run.mutation.line,
            change=_change(run),
            killed_by=run.killed_by,
        )
        for run in survivors_first
        if run.outcome in ("killed", "survived")
    ]


def judged_together(checks: Sequence[CheckOutcome]) -> list[CheckOutcome]:
    """The checks of a claim, of which several may be about mutants: one for each criterion that
    runs tests. Tests of other code cannot notice this work. So if those of one criterion do, the
    others need not."""
    enough = next((check.result.subject for check in checks if _notices(check)), None)
    if enough is None:
        return list(checks)
    return [_excused(check, enough) if _is_unnoticed(check) else check for check in checks]


def _outcome(paths: Sequence[str], run: CommandRun | None) -> MutantOutcome:
    """An endless loop is noticed, too. A compiler that refuses the mutant is no test."""
    if run is None:
        return "not_run"
    result = run.result
    if result.timed_out:
        return "killed"
    if result.exit_code is None:
        return "not_run"
    if result.exit_code == 0:
        return "survived"
    if any(map(is_compiled, paths)) and _COMPILE_ERROR.search(result.output_tail):
        return "invalid"
    return "killed"


def _killer(run: CommandRun) -> str:
    tests = run.report.tests if run.report is not None else ()
    failed = next((test.label for test in tests if test.outcome == "failed"), None)
    if failed is not None:
        return failed[:KILLER_CHARACTERS_MAX]
    return "timed out" if run.result.timed_out else f"exit code {run.result.exit_code}"


def _share(killed: int, survived: int, required: float) -> Judgement:
    tried = killed + survived
    message = f"{killed} of {pluralize(tried, 'mutant')} noticed, {required:.0%} are required"
    # A share such as 0.6 has no exact binary form.
    return Judgement("passed" if killed + 1e-9 >= required * tried else "failed", message)


def _noticed(killed: Sequence[MutantRun], survived: int) -> str:
    singles = [run for run in killed if run.at_once == 1]
    parts = []
    if singles or survived:
        parts.append(f"{len(singles)} of {pluralize(len(singles) + survived, 'mutant')} noticed")
    parts += [f"{run.at_once} changes at once noticed" for run in killed if run.at_once > 1]
    return ", ".join(parts)


def _change(run: MutantRun) -> str:
    change = run.mutation.change
    return change if run.at_once == 1 else f"{run.at_once} changes at once, the first: {change}"


def _notices(check: CheckOutcome) -> bool:
    result = check.result
    return (
        result.check == "mutants"
        and result.outcome == "passed"
        and any(mutant.killed_by is not None for mutant in result.mutants)
    )


def _is_unnoticed(check: CheckOutcome) -> bool:
    return check.result.check == "mutants" and check.result.outcome == "failed"


def _excused(check: CheckOutcome, by: str | None) -> CheckOutcome:
    message = f"{check.result.message}; but those of another criterion do: {by}"
    return CheckOutcome(check.result.model_copy(update={"outcome": "passed", "message": message}))
