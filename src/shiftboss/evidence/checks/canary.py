"""The check "canary": tests that are sabotaged here must be reported as failed.

This catches what no list of tricks can: a forged exit code or summary, a patched runner, an object
that equals everything, code that reads the expected value from the test. Which tests are sabotaged
is chosen at random, and every test file is touched, so that the code under test cannot know.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from shiftboss.evidence.checks.test_runs import CommitUnderTest
from shiftboss.evidence.mirror.objects import regular_files
from shiftboss.protocol.handoffs import HeldOutTests
from shiftboss.protocol.verdicts import Canary, CheckResult, Violation
from shiftboss.rules.claims.canaries.judgement import (
    CanaryJudgement,
    judge_canaries,
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
from shiftboss.rules.claims.kept_tests import is_test_file
from shiftboss.rules.claims.test_runs.judgement import CommandRun, Judgement
from shiftboss.rules.claims.test_runs.reported import Report
from shiftboss.rules.claims.verdicts import CheckOutcome, unverifiable

CANARIES_MAX: Final = 5
FILES_MAX: Final = 200
FILE_BYTES_MAX: Final = 512 * 1024
ALL_BYTES_MAX: Final = 8 * 2**20
_UNSAFE: Final = "none of its tests can be sabotaged safely"
_HINT: Final = (
    "a test that cannot fail proves nothing: find what makes these tests pass, or ask for a waiver "
    "of canary and give the reason"
)
_RANDOM: Final = secrets.SystemRandom()


class _TestFiles(NamedTuple):
    """The test files with their texts, and the tests in them that can be sabotaged."""

    texts: Mapping[str, str]
    options: Mapping[str, Sequence[Sabotage]]

    def sabotaged(self, chosen: Mapping[str, Sequence[Sabotage]]) -> dict[str, bytes]:
        """All files: those without a sabotaged test are only touched."""
        nonce = secrets.token_hex(8)
        return {
            path: apply_sabotages(path, text, chosen.get(path, ()), nonce).encode()
            for path, text in self.texts.items()
        }


async def check_canaries(
    tested: CommitUnderTest, text: str, argv: Sequence[str], green: CommandRun
) -> CheckOutcome:
    """`green` is the run of the criterion `text` without sabotage, which has passed."""
    assert green.report is not None
    if not green.report.tests:
        return await _check_unnamed(tested, text, argv)
    files = await _test_files(tested, green.report)
    if not files.options:
        return unverifiable("canary", _UNSAFE, text)
    judged, run = await _run(tested, argv, green.report, files, files.options)
    if judged.disturbed and judged.judgement.outcome == "failed":
        # A sabotaged test may have left something undone that others need. One that fails only at
        # its end has done it; and a test that is merely flaky will hardly fail twice.
        at_end = {
            path: late
            for path, options in files.options.items()
            if (late := [option for option in options if option.kind == "raise"])
        }
        again, run = await _run(tested, argv, green.report, files, at_end or files.options)
        names = {(test.file, test.name) for test in judged.disturbed}
        if not names & {(test.file, test.name) for test in again.disturbed} and again.disturbed:
            again, run = await _run(tested, argv, green.report, files, at_end or files.options)
        judged = again
    return _outcome(text, judged.judgement, judged.canaries, run)


async def _run(
    tested: CommitUnderTest,
    argv: Sequence[str],
    green: Report,
    files: _TestFiles,
    options: Mapping[str, Sequence[Sabotage]],
) -> tuple[CanaryJudgement, CommandRun | None]:
    chosen = choose_sabotages(options, _RANDOM, CANARIES_MAX)
    overlay = await asyncio.to_thread(files.sabotaged, chosen)
    run = await _run_variant(tested, argv, overlay)
    if run is None:
        problem = Judgement("unverifiable", "not run, the setup failed")
        return CanaryJudgement((), (), problem), None
    return judge_canaries(chosen, green, run), run


async def _run_variant(
    tested: CommitUnderTest, argv: Sequence[str], files: Mapping[str, bytes]
) -> CommandRun | None:
    """In a checkout of a commit with these files, so that git does not show the difference."""
    commit = await tested.mirror.variant(tested.commit, files)
    return await replace(tested, commit=commit).run(argv)


async def _test_files(tested: CommitUnderTest, green: Report) -> _TestFiles:
    """The files that the runner has reported; without files, all test files of the commit."""
    reported = {test.file for test in green.tests if test.outcome == "passed"}
    named = sorted({file for file in reported if file is not None} & set(tested.paths))
    paths = named or [path for path in tested.paths if is_test_file(path) or path.endswith(".rs")]
    texts = await _read(tested, paths)
    options = await asyncio.to_thread(_options, texts)
    passing = {
        path: found
        for path, some in options.items()
        if (found := passing_options(path, some, green))
    }
    return _TestFiles(texts, passing)


def _options(texts: Mapping[str, str]) -> dict[str, list[Sabotage]]:
    return {
        path: found for path, text in texts.items() if (found := sabotages(path, text, _RANDOM))
    }


async def _read(tested: CommitUnderTest, paths: Sequence[str]) -> dict[str, str]:
    """The texts of the files, as far as they are UTF-8: a random choice if there are many."""
    chosen = paths if len(paths) <= FILES_MAX else _RANDOM.sample(list(paths), FILES_MAX)
    all_blobs = await regular_files(tested.mirror.run, tested.commit)
    blobs = {path: all_blobs[path] for path in chosen if path in all_blobs}
    contents = await tested.mirror.read(
        list(dict.fromkeys(blobs.values())), FILE_BYTES_MAX, ALL_BYTES_MAX
    )
    texts = {}
    for path, blob in blobs.items():
        try:
            texts[path] = contents[blob].decode() if blob in contents else ""
        except UnicodeDecodeError:
            continue
    return {path: text for path, text in texts.items() if text}


def sabotage_files(tests: HeldOutTests) -> HeldOutTests | None:
    """The same files with one sabotaged test in each. None if none can be sabotaged."""
    options = _options(tests.files)
    if not options:
        return None
    chosen = {path: [choose_one(some, _RANDOM)] for path, some in options.items()}
    sabotaged = {
        path: apply_sabotages(path, text, chosen.get(path, ()), secrets.token_hex(8))
        for path, text in tests.files.items()
    }
    return tests.model_copy(update={"files": sabotaged})


async def _check_unnamed(tested: CommitUnderTest, text: str, argv: Sequence[str]) -> CheckOutcome:
    """The runner does not name its tests: sabotage one test of each file."""
    paths = [path for path in tested.paths if is_test_file(path)]
    texts = await _read(tested, paths)
    options = await asyncio.to_thread(_options, texts)
    if not options:
        return unverifiable("canary", _UNSAFE, text)
    chosen = {path: [choose_one(some, _RANDOM)] for path, some in options.items()}
    overlay = await asyncio.to_thread(_TestFiles(texts, options).sabotaged, chosen)
    run = await _run_variant(tested, argv, overlay)
    if run is None:
        return unverifiable("canary", "not run, the setup failed", text)
    judgement = judge_unnamed(run, len(chosen), all_files=chosen.keys() == set(paths))
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
    violation = Violation(check="canary", message=f"{text}: {judgement.message}", hint=_HINT)
    return CheckOutcome(checked, [violation])
