"""The check "mutants": whether the tests of a criterion notice changes of the changed lines."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

from shiftboss.evidence.mirror.changes import DIFFED_FILES_MAX, changed_lines
from shiftboss.evidence.mirror.mirror import Mirror
from shiftboss.protocol.claims.verdicts import CheckResult, Violation
from shiftboss.protocol.handoffs import MutantsRequired, VerificationPolicy
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
    MutantRun,
    mutant_verdict,
    reported,
    runs_of,
)
from shiftboss.rules.claims.mutants.sources import is_broken, is_mutable, mutations
from shiftboss.rules.claims.test_runs.judgement import CommandRun, Judgement
from shiftboss.rules.claims.verdicts import CheckOutcome, totals
from shiftboss.rules.paths.changes import NO_MODE, SUBMODULE, SYMLINK, FileChange
from shiftboss.rules.paths.patterns import Scope

FILE_BYTES_MAX: Final = 200_000
# Finding the mutations of this much takes seconds, if it was written for that.
ALL_BYTES_MAX: Final = 1_000_000
SECONDS_MAX: Final = 120.0
# A mutant that needs longer than this and than three green runs counts as an endless loop.
LIMIT_SECONDS_MIN: Final = 2.0
REPORTED_MAX: Final = 50

# Runs the criterion with other contents of some files, for at most so many seconds. None if the
# setup failed.
RunMutant = Callable[[Mapping[str, bytes], float], Awaitable[CommandRun | None]]


class ChangedWork(NamedTuple):
    """The changes: the files that differ between two commits of the mirror."""

    mirror: Mirror
    before: str
    after: str
    files: Sequence[FileChange]


async def check_mutants(
    work: ChangedWork,
    policy: VerificationPolicy,
    criterion: str,
    green: CommandRun,
    run: RunMutant,
    run_with_setup: RunMutant,
    chance: random.Random | None = None,
) -> CheckOutcome:
    """`green` is the run without mutants. `run` may use a checkout whose setup is done;
    `run_with_setup` repeats the setup with the mutants: a setup may install or build a copy of the
    files, which the tests then use."""
    texts = await _texts(work, policy)
    lines = await changed_lines(
        work.mirror, work.before, work.after, [file for file in work.files if file.path in texts]
    )
    ordered = await asyncio.to_thread(_ordered, texts, lines, chance or random.SystemRandom())
    if not ordered:
        result = CheckResult(
            check="mutants", outcome="passed", message=NOTHING_TO_CHANGE, subject=criterion
        )
        return CheckOutcome(result)
    started_at = time.monotonic()
    trials = _Trials(texts, policy, green.result.duration_ms / 1000, run)
    runs = await trials.make(ordered)
    if policy.setup and _is_refused(runs, policy):
        runs = await trials.confirm(ordered, run_with_setup)
    duration_ms = round((time.monotonic() - started_at) * 1000)
    return _checked(criterion, runs, policy, duration_ms, trials.sandbox)


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
        # The sandbox that contained the runs; None if nothing was run.
        self.sandbox: str | None = None

    async def make(self, ordered: Sequence[LocatedMutation]) -> list[MutantRun]:
        """First many mutations at once: one run shows whether the tests look at the work at all.
        Then one at a time. A required share can only be told from single ones."""
        at_once = together(ordered) if self._policy.mutants == "report" else []
        if len(at_once) > 1 and self._has_time():
            await self._try(at_once)
        for located in ordered:
            if not self._has_time() or self._is_clear():
                break
            if located not in self._tried():
                await self._try([located])
        return self._runs

    async def confirm(self, ordered: Sequence[LocatedMutation], run: RunMutant) -> list[MutantRun]:
        """Make sure that the survivors were what the tests used, by running all of them at once in
        another way. Only if the tests notice them now, the trials are made again in that way."""
        survivors = [
            (each.path, each.mutation) for each in self._runs if each.outcome == "survived"
        ]
        before, self._run, self._runs, self._began_at = self._runs, run, [], None
        at_once = together(survivors)
        if at_once:
            await self._try(at_once)
        if _survivors(self._runs):
            return before
        if not _is_noticed(self._runs) or self._policy.mutants != "report":
            # They cannot be made at once, or single ones are to be counted.
            self._runs, self._began_at = [], None
            await self.make(ordered)
        return self._runs if _is_noticed(self._runs) else before

    async def _try(self, located: Sequence[LocatedMutation]) -> None:
        files = mutated_files(self._texts, located)
        for path, content in files.items():
            if await asyncio.to_thread(is_broken, path, content):
                # With several, the cause cannot be told.
                if len(located) == 1:
                    self._runs.append(MutantRun(*located[0], "invalid"))
                return
        run = await self._run(files, self._limit_seconds)
        if run is not None:
            self.sandbox = run.result.sandbox
        if self._began_at is None:
            duration_ms = run.result.duration_ms if run is not None else 0
            self._began_at = time.monotonic() - duration_ms / 1000
        self._runs += runs_of(located, run)

    def _tried(self) -> set[LocatedMutation]:
        return {(run.path, run.mutation) for run in self._runs if run.at_once == 1}

    def _has_time(self) -> bool:
        """Whether another run fits into the budget. The first may take twice as long."""
        if self._runs and self._runs[-1].outcome == "not_run":
            return False
        if self._began_at is None:
            return self._expected_seconds <= 2 * self._budget_seconds
        budget = self._budget_seconds
        if self._is_undecided() and self._policy.mutant_seconds is None:
            budget = SECONDS_MAX
        return time.monotonic() - self._began_at + self._expected_seconds <= budget

    def _is_undecided(self) -> bool:
        return not _is_noticed(self._runs) and _survivors(self._runs) < JUDGED_MIN

    def _is_clear(self) -> bool:
        """Whether the claim is refused, however the other mutants end."""
        is_unnoticed = not _is_noticed(self._runs) and _survivors(self._runs) >= JUDGED_MIN
        return self._policy.mutants == "report" and is_unnoticed


def _is_refused(runs: Sequence[MutantRun], policy: VerificationPolicy) -> bool:
    """Whether no mutant was noticed, and the claim is refused for it."""
    return not _is_noticed(runs) and _verdict(runs, policy).outcome == "failed"


def _verdict(runs: Sequence[MutantRun], policy: VerificationPolicy) -> Judgement:
    required = policy.mutants if isinstance(policy.mutants, MutantsRequired) else None
    return mutant_verdict(runs, required)


def _is_noticed(runs: Sequence[MutantRun]) -> bool:
    return any(run.outcome == "killed" for run in runs)


def _survivors(runs: Sequence[MutantRun]) -> int:
    return sum(run.outcome == "survived" for run in runs)


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
    sizes = {blob.id: blob.size for blob in await work.mirror.look_up(old) if blob is not None}
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
    criterion: str,
    runs: Sequence[MutantRun],
    policy: VerificationPolicy,
    duration_ms: int,
    sandbox: str | None,
) -> CheckOutcome:
    outcome, message = _verdict(runs, policy)
    mutants = reported(runs)
    result = CheckResult(
        check="mutants",
        outcome=outcome,
        message=message,
        subject=criterion,
        duration_ms=duration_ms,
        sandbox=sandbox,
        mutants=mutants[:REPORTED_MAX],
        mutant_totals=totals(mutants) if mutants else None,
    )
    if outcome != "failed":
        return CheckOutcome(result)
    survivor = mutants[0]
    example = f"for example {survivor.path} line {survivor.line}: {survivor.change}"
    violation = Violation(check="mutants", message=f"{criterion}: {message} ({example})", hint=HINT)
    return CheckOutcome(result, [violation])
