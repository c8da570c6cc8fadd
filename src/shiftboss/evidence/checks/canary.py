"""The check "canary": tests that are sabotaged here must be reported as failed.

This catches what no list of tricks can: a forged exit code or summary, a patched runner, an object
that equals everything, code that reads the expected value from the test. Which tests are sabotaged
is chosen at random, and every test file is touched, so that the code under test cannot know.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from shiftboss.evidence.checks.test_files import decoded, read_texts
from shiftboss.evidence.checks.test_runs import CommitUnderTest
from shiftboss.protocol.claims.verdicts import Canary, CheckResult, Violation
from shiftboss.rules.claims.canaries.judgement import (
    CanaryJudgement,
    canary_hint,
    judge_canaries,
    judge_touched,
    judge_unnamed,
    passing_options,
)
from shiftboss.rules.claims.canaries.sabotage import (
    Sabotage,
    apply_sabotages,
    choose_one,
    choose_sabotages,
    sabotages,
)
from shiftboss.rules.claims.kept_tests import is_test_file, scan_tests
from shiftboss.rules.claims.test_runs.judgement import CommandRun, Judgement
from shiftboss.rules.claims.test_runs.run_report import RunReport
from shiftboss.rules.claims.verdicts import CheckOutcome, unverifiable

CANARIES_MAX: Final = 5
RETRIES_MAX: Final = 2
_UNSAFE: Final = "none of its tests can be sabotaged safely"
_NO_SETUP: Final = Judgement("unverifiable", "not run, the setup failed")
_RANDOM: Final = secrets.SystemRandom()


class _TestFiles(NamedTuple):
    """The test files with their texts, and the tests in them that can be sabotaged. `laid_over` are
    files that every run gets instead of the commit's own."""

    texts: Mapping[str, str]
    options: Mapping[str, Sequence[Sabotage]]
    laid_over: Mapping[str, bytes] = MappingProxyType({})

    def sabotaged(self, chosen: Mapping[str, Sequence[Sabotage]]) -> dict[str, bytes]:
        """All files: those without a sabotaged test are only touched."""
        return {**self.laid_over, **sabotaged_files(self.texts, chosen)}


def sabotaged_files(
    texts: Mapping[str, str], chosen: Mapping[str, Sequence[Sabotage]] = MappingProxyType({})
) -> dict[str, bytes]:
    nonce = secrets.token_hex(8)
    return {
        path: apply_sabotages(path, text, chosen.get(path, ()), nonce).encode()
        for path, text in texts.items()
    }


async def check_canaries(
    tested: CommitUnderTest,
    text: str,
    argv: Sequence[str],
    green: CommandRun,
    laid_over: Mapping[str, bytes] = MappingProxyType({}),
) -> CheckOutcome:
    """`green` is the run of the criterion `text` without sabotage, which has passed. It had the
    files `laid_over`; if there are any, their tests are sabotaged."""
    assert green.report is not None
    if not green.report.tests:
        return await _check_unnamed(tested, text, argv)
    files = await _test_files(tested, green.report, laid_over)
    if not files.options:
        return unverifiable("canary", _UNSAFE, text)
    judged, run = await _run(tested, argv, green.report, files)
    before: set[tuple[str | None, str]] = set()
    for _ in range(RETRIES_MAX):
        # A sabotaged test may have disturbed others, or they are flaky: not the same ones again.
        disturbed = {(test.file, test.name) for test in judged.disturbed}
        if not judged.is_only_disturbed or before & disturbed:
            break
        before |= disturbed
        judged, run = await _run(tested, argv, green.report, files)
    return _outcome(text, judged.judgement, judged.canaries, run)


async def _run(
    tested: CommitUnderTest, argv: Sequence[str], green: RunReport, files: _TestFiles
) -> tuple[CanaryJudgement, CommandRun | None]:
    chosen = choose_sabotages(files.options, _RANDOM, CANARIES_MAX)
    overlay = await asyncio.to_thread(files.sabotaged, chosen)
    run = await tested.run(argv, overlay)
    if run is None:
        return CanaryJudgement((), (), _NO_SETUP), None
    judged = await asyncio.to_thread(judge_canaries, chosen, green, run, frozenset(files.texts))
    if judged.judgement.outcome == "passed" and not judged.has_controls:
        # Nothing that passed shows that the code does not just fail in files that were touched.
        touched = await tested.run(argv, await asyncio.to_thread(files.sabotaged, {}))
        judged = judged._replace(judgement=judge_touched(judged.judgement, touched))
    return judged, run


async def _test_files(
    tested: CommitUnderTest, green: RunReport, laid_over: Mapping[str, bytes]
) -> _TestFiles:
    """The files that the runner has reported; without files, all test files of the commit."""
    reported = {test.file for test in green.tests if test.outcome == "passed"}
    if laid_over:
        texts = {path: text for path, text in decoded(laid_over).items() if path in reported}
    else:
        named = sorted({file for file in reported if file is not None} & set(tested.paths))
        others = [path for path in tested.paths if is_test_file(path) or path.endswith(".rs")]
        texts = await read_texts(tested, named or others)
    options = await asyncio.to_thread(options_of, texts)
    passing = await asyncio.to_thread(passing_options, options, green)
    return _TestFiles(texts, passing, laid_over)


def options_of(texts: Mapping[str, str]) -> dict[str, list[Sabotage]]:
    return {
        path: sabotaged
        for path, text in texts.items()
        if (sabotaged := sabotages(path, text, _RANDOM))
    }


async def _check_unnamed(tested: CommitUnderTest, text: str, argv: Sequence[str]) -> CheckOutcome:
    """The runner does not name its tests: sabotage one test of each file."""
    texts = await read_texts(tested, [path for path in tested.paths if is_test_file(path)])
    options = await asyncio.to_thread(options_of, texts)
    if not options:
        return unverifiable("canary", _UNSAFE, text)
    chosen = {path: [choose_one(some, _RANDOM)] for path, some in options.items()}
    files = _TestFiles(texts, options)
    run = await tested.run(argv, await asyncio.to_thread(files.sabotaged, chosen))
    if run is None:
        return unverifiable("canary", _NO_SETUP.message, text)
    with_tests = {path for path, content in texts.items() if scan_tests(path, content)}
    judgement = judge_unnamed(run, len(chosen), all_files=with_tests <= chosen.keys())
    if judgement.outcome == "passed":
        touched = await tested.run(argv, await asyncio.to_thread(files.sabotaged, {}))
        judgement = judge_touched(judgement, touched)
    return _outcome(text, judgement, (), run)


def _outcome(
    text: str, judgement: Judgement, canaries: Sequence[Canary], run: CommandRun | None
) -> CheckOutcome:
    result = run.result if run is not None else None
    checked = CheckResult(
        check="canary",
        outcome=judgement.outcome,
        message=judgement.message,
        subject=text,
        exit_code=result.exit_code if result is not None else None,
        duration_ms=result.duration_ms if result is not None else 0,
        sandbox=result.sandbox if result is not None else None,
        canaries=list(canaries),
    )
    if judgement.outcome != "failed":
        return CheckOutcome(checked)
    hint = canary_hint(canaries, result.exit_code if result is not None else None)
    violation = Violation(check="canary", message=f"{text}: {judgement.message}", hint=hint)
    return CheckOutcome(checked, [violation])
