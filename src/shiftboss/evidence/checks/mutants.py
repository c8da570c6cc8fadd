"""The check "mutants": whether the tests of a criterion notice changes of the changed lines."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

from shiftboss.evidence.mirror.changes import DIFFED_FILES_MAX, changed_lines
from shiftboss.evidence.mirror.mirror import Mirror
from shiftboss.protocol.handoffs import VerificationPolicy
from shiftboss.protocol.verdicts import CheckResult, Violation
from shiftboss.rules.claims.mutants.mutation import (
    LocatedMutation,
    choose_mutations,
    mutated_files,
    together,
)
from shiftboss.rules.claims.mutants.outcome import (
    HINT,
    JUDGED_MIN,
    NOTHING_TO_CHANGE,
    MutantResult,
    MutantRun,
    mutant_verdict,
    reported,
    runs_of,
)
from shiftboss.rules.claims.mutants.sources import is_broken, is_mutable, mutations
from shiftboss.rules.claims.verdicts import CheckOutcome
from shiftboss.rules.paths.changes import NO_MODE, SUBMODULE, SYMLINK, FileChange
from shiftboss.rules.paths.patterns import Scope

FILE_BYTES_MAX: Final = 200_000
# Finding the mutations of this much takes seconds, if it was written for that.
ALL_BYTES_MAX: Final = 1_000_000
SECONDS_MAX: Final = 120.0
# A mutant that needs longer than this and than three green runs counts as an endless loop.
LIMIT_SECONDS_MIN: Final = 2.0
# As long as no mutant was noticed and too few were run to judge, the budget is this much longer.
UNDECIDED_FACTOR: Final = 4.0
REPORTED_MAX: Final = 50

# Runs the criterion with other contents of some files, for at most so many seconds.
RunMutant = Callable[[Mapping[str, bytes], float], Awaitable[MutantResult]]


class ChangedWork(NamedTuple):
    """What was changed: the files that differ between two commits of the mirror."""

    mirror: Mirror
    before: str
    after: str
    files: Sequence[FileChange]


class GreenRun(NamedTuple):
    """The run of the criterion without mutants."""

    criterion: str
    seconds: float


async def check_mutants(
    work: ChangedWork,
    policy: VerificationPolicy,
    green: GreenRun,
    run: RunMutant,
    run_with_setup: RunMutant,
    chance: random.Random | None = None,
) -> CheckOutcome:
    """`run` may use a checkout whose setup is done; `run_with_setup` repeats the setup with the
    mutants: a setup may install or build a copy of the files, which the tests then use."""
    if policy.mutants == "off":
        return _checked(green, [], policy, 0)
    texts = await _texts(work, policy)
    lines = await changed_lines(
        work.mirror, work.before, work.after, [file for file in work.files if file.path in texts]
    )
    ordered = await asyncio.to_thread(_ordered, texts, lines, chance or random.SystemRandom())
    if not ordered:
        result = CheckResult(
            check="mutants", outcome="passed", message=NOTHING_TO_CHANGE, subject=green.criterion
        )
        return CheckOutcome(result)
    started_at = time.monotonic()
    trials = _Trials(texts, policy, green.seconds, run)
    runs = await trials.make(ordered)
    if policy.setup and _is_refused(runs, policy):
        runs = await trials.confirm(ordered, run_with_setup)
    return _checked(green, runs, policy, round((time.monotonic() - started_at) * 1000))


class _Trials:
    """Runs one mutant after the other, until the time is over or the verdict is clear."""

    def __init__(
        self,
        texts: Mapping[str, str],
        policy: VerificationPolicy,
        green_seconds: float,
        run: RunMutant,
    ) -> None:
        self._texts = texts
        self._policy = policy
        self._run = run
        self._expected_seconds = green_seconds
        self._limit_seconds = max(LIMIT_SECONDS_MIN, 3 * green_seconds)
        self._budget_seconds = float(policy.mutant_seconds or min(green_seconds, SECONDS_MAX))
        # When the first run began, without the checkout and the setup before it.
        self._began_at: float | None = None
        self._runs: list[MutantRun] = []

    async def make(self, ordered: Sequence[LocatedMutation]) -> list[MutantRun]:
        """First many mutations at once: one run shows whether the tests look at the work at all.
        Then one at a time. A required share can only be told from single ones."""
        at_once = together(ordered) if self._policy.mutants == "report" else []
        if len(at_once) > 1 and self._has_time():
            await self._try(at_once)
        for located in ordered:
            if not self._has_time() or self._is_clear():
                break
            if located not in self._judged():
                await self._try([located])
        return self._runs

    async def confirm(self, ordered: Sequence[LocatedMutation], run: RunMutant) -> list[MutantRun]:
        """Make sure that the survivors were what the tests used, by running all of them at once in
        another way. Only if the tests notice them now, the trials are made again in that way."""
        survivors = [
            (each.path, each.mutation) for each in self._runs if each.outcome == "survived"
        ]
        at_once = together(survivors)
        result = await run(mutated_files(self._texts, at_once), self._limit_seconds)
        runs = runs_of(at_once, result)
        if runs[0].outcome != "killed":
            return self._runs
        if self._policy.mutants == "report":
            return runs
        self._run, self._runs, self._began_at = run, [], None
        return await self.make(ordered)

    async def _try(self, located: Sequence[LocatedMutation]) -> None:
        files = mutated_files(self._texts, located)
        for path, content in files.items():
            if await asyncio.to_thread(is_broken, path, content):
                self._runs += [MutantRun(name, each, "invalid") for name, each in located]
                return
        result = await self._run(files, self._limit_seconds)
        if self._began_at is None:
            self._began_at = time.monotonic() - result.duration_ms / 1000
        self._runs += runs_of(located, result)

    def _judged(self) -> set[LocatedMutation]:
        return {(run.path, run.mutation) for run in self._runs if run.at_once == 1}

    def _has_time(self) -> bool:
        """Whether another run fits into the budget. The first may take twice as long."""
        if self._runs and self._runs[-1].outcome == "not_run":
            return False
        if self._began_at is None:
            return self._expected_seconds <= 2 * self._budget_seconds
        budget = self._budget_seconds
        if self._is_undecided():
            budget = max(budget, min(UNDECIDED_FACTOR * budget, SECONDS_MAX))
        return time.monotonic() - self._began_at + self._expected_seconds <= budget

    def _is_undecided(self) -> bool:
        outcomes = [run.outcome for run in self._runs]
        return "killed" not in outcomes and outcomes.count("survived") < JUDGED_MIN

    def _is_clear(self) -> bool:
        return self._policy.mutants == "report" and _is_unnoticed(self._runs)


def _is_refused(runs: Sequence[MutantRun], policy: VerificationPolicy) -> bool:
    """Whether no mutant was noticed, and the claim is refused for it."""
    outcomes = {run.outcome for run in runs}
    return "killed" not in outcomes and mutant_verdict(runs, policy.mutants).outcome == "failed"


def _is_unnoticed(runs: Sequence[MutantRun]) -> bool:
    outcomes = [run.outcome for run in runs]
    return "killed" not in outcomes and outcomes.count("survived") >= JUDGED_MIN


async def _texts(work: ChangedWork, policy: VerificationPolicy) -> dict[str, str]:
    """The changed files that can be mutated. Of very many, some are chosen at random."""
    generated = Scope(policy.generated)
    files = [
        file
        for file in work.files
        if file.is_utf8
        and file.new_mode not in (NO_MODE, SUBMODULE, SYMLINK)
        and is_mutable(file.path)
        and not generated.covers(file.path)
    ]
    if not files:
        return {}
    files = random.SystemRandom().sample(files, min(len(files), DIFFED_FILES_MAX))
    old = [file.old_blob for file in files if file.old_mode != NO_MODE]
    sizes = {found.id: found.size for found in await work.mirror.look_up(old) if found is not None}
    files = [file for file in files if sizes.get(file.old_blob, 0) <= FILE_BYTES_MAX]
    blobs = [file.blob for file in files]
    contents = await work.mirror.read(blobs, FILE_BYTES_MAX, ALL_BYTES_MAX)
    texts = {}
    for file in files:
        text = _decoded(contents.get(file.blob))
        if text is not None:
            texts[file.path] = text
    return texts


def _decoded(content: bytes | None) -> str | None:
    try:
        return content.decode() if content is not None else None
    except UnicodeDecodeError:
        return None


def _ordered(
    texts: Mapping[str, str], lines: Mapping[str, frozenset[int]], chance: random.Random
) -> list[LocatedMutation]:
    candidates = {
        path: mutations(path, text, lines[path]) for path, text in texts.items() if path in lines
    }
    return choose_mutations(candidates, chance)


def _checked(
    green: GreenRun, runs: Sequence[MutantRun], policy: VerificationPolicy, duration_ms: int
) -> CheckOutcome:
    outcome, message = mutant_verdict(runs, policy.mutants)
    mutants = reported(runs)
    result = CheckResult(
        check="mutants",
        outcome=outcome,
        message=message,
        subject=green.criterion,
        duration_ms=duration_ms,
        mutants=mutants[:REPORTED_MAX],
    )
    if outcome != "failed":
        return CheckOutcome(result)
    survivor = next(mutant for mutant in mutants if mutant.killed_by is None)
    example = f"for example {survivor.path} line {survivor.line}: {survivor.change}"
    violation = Violation(
        check="mutants", message=f"{green.criterion}: {message} ({example})", hint=HINT
    )
    return CheckOutcome(result, [violation])
