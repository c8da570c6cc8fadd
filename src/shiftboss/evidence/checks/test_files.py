"""Reads the test files of a commit: those that a runner has reported, and those that help tests."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from typing import Final

from shiftboss.evidence.checks.test_runs import CommitUnderTest
from shiftboss.rules.claims.kept_tests import is_harness_file
from shiftboss.rules.claims.test_runs.judgement import CommandRun
from shiftboss.rules.claims.test_runs.run_report import RunReport
from shiftboss.rules.claims.test_runs.runners import words_after_runner
from shiftboss.rules.claims.test_runs.unexplained_tests import unexplained_tests

FILES_MAX: Final = 200
FILE_BYTES_MAX: Final = 512 * 1024
ALL_BYTES_MAX: Final = 8 * 2**20


async def read_texts(tested: CommitUnderTest, paths: Sequence[str]) -> dict[str, str]:
    """The texts of the files, as far as they are UTF-8: a random choice if there are many."""
    chosen = paths
    if len(paths) > FILES_MAX:
        chosen = secrets.SystemRandom().sample(list(paths), FILES_MAX)
    all_blobs = await tested.mirror.regular_files(tested.commit)
    blobs = {path: all_blobs[path] for path in chosen if path in all_blobs}
    contents = await tested.mirror.read(
        list(dict.fromkeys(blobs.values())), FILE_BYTES_MAX, ALL_BYTES_MAX
    )
    return decoded({path: contents[blob] for path, blob in blobs.items() if blob in contents})


def decoded(contents: Mapping[str, bytes]) -> dict[str, str]:
    texts = {}
    for path, content in contents.items():
        try:
            texts[path] = content.decode()
        except UnicodeDecodeError:
            continue
    return {path: text for path, text in texts.items() if text}


async def unexplained_problem(
    tested: CommitUnderTest,
    argv: Sequence[str],
    run: CommandRun,
    base: RunReport | None,
    laid_over: Mapping[str, bytes],
) -> str | None:
    """Why a run does not count although it passed: code outside of the tests skipped some, or kept
    the runner from finding them. `laid_over` are files that the run had instead of the commit's."""
    if run.report is None:
        return None
    reported = {test.file for test in run.report.tests if test.file is not None}
    helping = [path for path in tested.paths if path.endswith(".py") and is_harness_file(path)]
    python = {path for path in reported if path.endswith(".py")}
    if not python:
        return None
    texts = await read_texts(tested, sorted({*python, *helping})) | decoded(laid_over)
    unexplained = await asyncio.to_thread(
        unexplained_tests,
        run.report,
        {path: text for path, text in texts.items() if path in python},
        [text for path, text in texts.items() if path not in python],
        base,
        words_after_runner(argv),
    )
    if not unexplained:
        return None
    named = ", ".join(unexplained[:5])
    return (
        f"these tests were not run, and nothing in the test files says why: {named}; does the code "
        "under test skip or hide them?"
    )
