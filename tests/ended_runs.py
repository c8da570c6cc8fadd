"""Runs of a test command, as they would have ended."""

from __future__ import annotations

from shiftboss.rules.claims.criteria import CommandResult
from shiftboss.rules.claims.test_runs.judgement import CommandRun
from shiftboss.rules.claims.test_runs.run_report import ReportedTest, RunReport


def ended(
    code: int | None, *failed: str, seconds: float = 0, output: str = "", timed_out: bool = False
) -> CommandRun:
    """A contained run that ended with this code, in which these tests failed."""
    result = CommandResult(
        code, timed_out, False, output, round(seconds * 1000), "", sandbox="namespaces"
    )
    return CommandRun("unittest", False, result, report_of(failed))


def report_of(failed: tuple[str, ...]) -> RunReport:
    return RunReport.of_tests("output", [ReportedTest(None, name, "failed") for name in failed])
