"""Runs the test command of a criterion and collects what the runner reports about each test."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import secrets
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from pydantic import BaseModel, TypeAdapter, ValidationError

from shiftboss.evidence.mirror.checkout import CheckoutWithSetup, checkout_with_setup
from shiftboss.evidence.mirror.mirror import Mirror
from shiftboss.evidence.mirror.overlays import NO_OVERLAY, Overlay
from shiftboss.protocol.claims.verdicts import VerificationJob
from shiftboss.rules.claims.test_runs.judgement import CommandRun
from shiftboss.rules.claims.test_runs.report_files import REPORT_BYTES_MAX, read_report
from shiftboss.rules.claims.test_runs.run_report import RunReport
from shiftboss.rules.claims.test_runs.runners import ReportingCommand, reporting_command
from shiftboss.rules.claims.test_runs.test_output import printed_report
from shiftboss.system.background_delete import BackgroundDelete

# A runner that prints each test prints this much about 50,000 of them.
TEST_OUTPUT_BYTES: Final = 4 * 2**20
# How much of the end of the output is kept as evidence.
EVIDENCE_CHARACTERS: Final = 65_536
CACHED_MAX: Final = 300


async def run_tests(
    checkout: CheckoutWithSetup,
    argv: Sequence[str],
    job: VerificationJob,
    paths: Collection[str],
    *,
    seconds: float | None = None,
) -> CommandRun:
    """`paths` are the files of the commit. The name of the report does not tell the code under test
    for which purpose it runs."""
    report_file = checkout.home / f"report-{secrets.token_hex(8)}"
    command = reporting_command(argv, str(report_file))
    result = await checkout.run(
        command.argv, command.environment, seconds=seconds, output_bytes=TEST_OUTPUT_BYTES
    )
    printed = _Printed(result.output_tail, job.policy.test_summary)
    report = await asyncio.to_thread(
        _read_tests, report_file, command, checkout.files, printed, paths
    )
    evidence = replace(result, output_tail=result.output_tail[-EVIDENCE_CHARACTERS:])
    return CommandRun(command.runner, command.must_report, evidence, report)


class _Printed(NamedTuple):
    """The output of a runner. `summary` says how its summary looks, if the policy does."""

    output: str
    summary: str | None


def _read_tests(
    report_file: Path,
    command: ReportingCommand,
    folder: Path,
    printed: _Printed,
    paths: Collection[str],
) -> RunReport | None:
    """The report of a run, from the file or the output. Takes a second if it was made to."""
    report = None
    content = _read_regular_file(report_file)
    if content is not None:
        report = read_report(content, command.format, str(folder))
    if report is None:
        report = printed_report(command.runner, printed.output, printed.summary)
    return report.with_files(paths) if report is not None else None


def _read_regular_file(path: Path) -> bytes | None:
    """The code under test may have made something else of the file, such as a link or a pipe."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as report:
            content = report.read(REPORT_BYTES_MAX + 1)
    except OSError:
        return None
    return content if 0 < len(content) <= REPORT_BYTES_MAX else None


@dataclass(frozen=True, slots=True)
class CommitUnderTest:
    """A commit whose checkouts a command runs in. `paths` are its files."""

    mirror: Mirror
    commit: str
    paths: Collection[str]
    job: VerificationJob
    deletion: BackgroundDelete

    def checkout(
        self, overlay: Overlay = NO_OVERLAY
    ) -> AbstractAsyncContextManager[CheckoutWithSetup]:
        return checkout_with_setup(self.mirror, self.commit, self.job, self.deletion, overlay)

    async def run(
        self, argv: Sequence[str], files: Mapping[str, bytes] = MappingProxyType({})
    ) -> CommandRun | None:
        """In a new checkout of the commit with other `files`. None if its setup fails.

        If the setup fails with these files, it does not see them: it may run tests itself, and code
        of the worker must not be able to prevent the run.
        """
        run = await self.run_with(argv, Overlay(files))
        if run is None and files:
            run = await self.run_with(argv, Overlay(files, after_setup=True))
        return run

    async def run_with(self, argv: Sequence[str], overlay: Overlay) -> CommandRun | None:
        """None if the setup fails."""
        tested = replace(self, paths={*self.paths, *overlay.files})
        async with self.checkout(overlay) as checkout:
            return await tested.run_in(checkout, argv)

    async def run_in(
        self, checkout: CheckoutWithSetup, argv: Sequence[str], seconds: float | None = None
    ) -> CommandRun | None:
        if checkout.failed_setup is not None:
            return None
        return await run_tests(checkout, argv, self.job, self.paths, seconds=seconds)


class _CachedReport(BaseModel):
    report: RunReport | None


_CACHED: Final = TypeAdapter(_CachedReport)


class BaseRuns:
    """The report of a test command at the base: the same tests must pass at the claimed commit.

    There are more ways to switch a test off than can be found by reading; comparing what ran finds
    them all. The reports are cached in a folder, because many claims have the same base.
    """

    def __init__(self, folder: Path, deletion: BackgroundDelete) -> None:
        self._folder = folder
        self._deletion = deletion

    async def report(
        self, mirror: Mirror, base: str, argv: Sequence[str], job: VerificationJob
    ) -> RunReport | None:
        """None: the tests could not be counted, or the policy allows their removal."""
        if job.policy.test_removal == "allow" or is_removal_waived(job):
            return None
        path = self._folder / _key(mirror, base, argv, job)
        try:
            return _CACHED.validate_json(await asyncio.to_thread(path.read_bytes)).report
        except (OSError, ValidationError):
            pass  # it has not run yet
        report, is_stable = await self._run(mirror, base, argv, job)
        if is_stable:
            await asyncio.to_thread(self._save, path, report)
        return report

    async def _run(
        self, mirror: Mirror, base: str, argv: Sequence[str], job: VerificationJob
    ) -> tuple[RunReport | None, bool]:
        """The report, and whether another run would give the same."""
        listed = await mirror.output("the files", "ls-tree", "-r", "-z", "--name-only", base)
        paths = [raw.decode(errors="backslashreplace") for raw in listed.split(b"\0") if raw]
        run = await CommitUnderTest(mirror, base, paths, job, self._deletion).run(argv)
        if run is None:
            return None, False
        if run.result.exit_code is None:
            return None, run.result.timed_out
        return run.report, True

    def _save(self, path: Path, report: RunReport | None) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = path.with_suffix(".new")
        temporary.write_bytes(_CACHED.dump_json(_CachedReport(report=report)))
        temporary.replace(path)
        oldest_first = sorted(self._folder.iterdir(), key=lambda file: file.stat().st_mtime)
        for file in oldest_first[:-CACHED_MAX]:
            file.unlink()


def is_removal_waived(job: VerificationJob) -> bool:
    """A waiver that lets tests be removed also waives the comparison."""
    return any(waiver.check == "tests_kept" for waiver in job.waivers)


def _key(mirror: Mirror, base: str, argv: Sequence[str], job: VerificationJob) -> str:
    """A hash of everything that the result of the command is known to depend on."""
    inputs = [
        mirror.path.name,
        base,
        list(argv),
        job.policy.setup,
        job.policy.environment,
        job.policy.test_summary,
        [job.policy.sandbox, job.policy.network],
        os.environ.get("PATH"),
    ]
    return hashlib.sha256(json.dumps(inputs).encode()).hexdigest()
