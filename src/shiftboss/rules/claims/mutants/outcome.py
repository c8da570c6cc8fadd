"""What the runs of mutants say about the tests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from shiftboss.protocol.handoffs import MutantsRequired
from shiftboss.protocol.verdicts import Mutant, Outcome
from shiftboss.rules.claims.mutants.mutation import LocatedMutation, Mutation
from shiftboss.rules.claims.mutants.sources import is_compiled
from shiftboss.rules.claims.verdicts import CheckOutcome

MutantOutcome = Literal["killed", "survived", "invalid", "not_run"]
MutantPolicy = Literal["off", "report"] | MutantsRequired

# One or two mutants may be equivalent: no test could tell them from the original.
JUDGED_MIN: Final = 3
HINT: Final = (
    "add tests that fail without this work; if the change cannot be tested, ask for a waiver of "
    "`mutants` and give the reason"
)
NOT_RUN: Final = "no mutant could be run in the time that there was"
NOTHING_TO_CHANGE: Final = "no changed line of the product can be mutated"

# What compilers, bundlers and interpreters print when a file is not a program.
_COMPILE_ERROR: Final = re.compile(
    r"\[(?:build|setup) failed\]|could not compile|error\[E\d+\]|\berror TS\d+"
    r"|\bSyntaxError\b|Transform failed|Build failed with|Unexpected token"
)


class MutantResult(NamedTuple):
    """How the criterion ended with a mutant. `exit_code` is None if it was stopped."""

    exit_code: int | None
    first_failed: str | None = None
    timed_out: bool = False
    output: str = ""
    duration_ms: int = 0


class MutantRun(NamedTuple):
    """One run of the criterion. `at_once` counts the mutations in it, of which `mutation` is the
    first."""

    path: str
    mutation: Mutation
    outcome: MutantOutcome
    killed_by: str | None = None
    at_once: int = 1


class MutantVerdict(NamedTuple):
    outcome: Outcome
    message: str


def runs_of(mutations: Sequence[LocatedMutation], result: MutantResult) -> list[MutantRun]:
    """What a run of the criterion says about the mutations that it was run with. If it failed with
    several of them, nobody knows which of them did it: that is one run with all of them."""
    outcome = _outcome([path for path, _ in mutations], result)
    if outcome != "killed":
        return [MutantRun(path, mutation, outcome) for path, mutation in mutations]
    path, mutation = mutations[0]
    return [MutantRun(path, mutation, "killed", _killer(result), len(mutations))]


def mutant_verdict(runs: Sequence[MutantRun], policy: MutantPolicy) -> MutantVerdict:
    if policy == "off":
        return MutantVerdict("passed", "not run, the policy switches mutants off")
    killed = [run for run in runs if run.outcome == "killed"]
    survived = [run for run in runs if run.outcome == "survived"]
    if isinstance(policy, MutantsRequired):
        return _required(len(killed), len(survived), policy.require)
    if killed:
        return MutantVerdict("passed", _noticed(killed, len(survived)))
    if not survived:
        return MutantVerdict("passed", NOT_RUN)
    if len(survived) >= JUDGED_MIN:
        return MutantVerdict(
            "failed",
            f"the tests notice none of {len(survived)} changes of the changed lines: "
            "they do not test this work",
        )
    changes = "1 change" if len(survived) == 1 else f"any of {len(survived)} changes"
    return MutantVerdict(
        "passed", f"the tests do not notice {changes} of the changed lines, too few to judge by"
    )


def reported(runs: Sequence[MutantRun]) -> list[Mutant]:
    """The mutants that were run, for the verdict."""
    return [
        Mutant(
            path=run.path,
            line=run.mutation.line,
            change=_change(run),
            killed_by=run.killed_by,
        )
        for run in runs
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


def _outcome(paths: Sequence[str], result: MutantResult) -> MutantOutcome:
    """An endless loop is noticed, too. A compiler that refuses the mutant is no test."""
    if result.timed_out:
        return "killed"
    if result.exit_code is None:
        return "not_run"
    if result.exit_code == 0:
        return "survived"
    if any(map(is_compiled, paths)) and _COMPILE_ERROR.search(result.output):
        return "invalid"
    return "killed"


def _killer(result: MutantResult) -> str:
    if result.first_failed is not None:
        return result.first_failed
    return "timed out" if result.timed_out else f"exit code {result.exit_code}"


def _required(killed: int, survived: int, share: float) -> MutantVerdict:
    run = killed + survived
    if run == 0:
        return MutantVerdict("unverifiable", NOT_RUN)
    message = f"{killed} of {_mutants(run)} noticed, {share:.0%} are required"
    # A share such as 0.6 has no exact binary form.
    return MutantVerdict("passed" if killed + 1e-9 >= share * run else "failed", message)


def _noticed(killed: Sequence[MutantRun], survived: int) -> str:
    singles = [run for run in killed if run.at_once == 1]
    parts = []
    if singles or survived:
        parts.append(f"{len(singles)} of {_mutants(len(singles) + survived)} noticed")
    parts += [f"{run.at_once} changes at once noticed" for run in killed if run.at_once > 1]
    return ", ".join(parts)


def _mutants(count: int) -> str:
    return "1 mutant" if count == 1 else f"{count} mutants"


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
