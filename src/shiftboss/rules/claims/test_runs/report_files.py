"""Reads the report files of test runners: JUnit XML and the JSON of jest and vitest.

The code under test can write to these files. So whatever they contain, reading them ends soon, and
a file that is not a report counts as missing.
"""

from __future__ import annotations

import json
import os.path
from collections.abc import Iterator
from typing import Any, Final
from xml.etree import ElementTree as ET

from shiftboss.rules.claims.test_runs.run_report import CaseOutcome, ReportedTest, RunReport
from shiftboss.rules.claims.test_runs.runners import ReportFormat

REPORT_BYTES_MAX: Final = 8 * 2**20
TESTS_MAX: Final = 50_000
# Tags, or objects and lists: a few for each test. A short file can have millions of them, and each
# takes time, and many times its size in memory.
PARTS_MAX: Final = 8 * TESTS_MAX
_NAME_CHARACTERS_MAX: Final = 1000
_JEST_OUTCOMES: Final[dict[str, CaseOutcome]] = {"passed": "passed", "failed": "failed"}


def read_report(content: bytes, format: ReportFormat, folder: str) -> RunReport | None:  # noqa: A002
    """None if the content is not a report. `folder` is the checkout: paths are relative to it."""
    if len(content) > REPORT_BYTES_MAX:
        return None
    read = _junit_tests if format == "junit" else _jest_tests
    try:
        tests = []
        for test in read(content, folder):
            tests.append(test)
            if len(tests) > TESTS_MAX:
                return None
    except (ValueError, RecursionError, ET.ParseError):
        return None
    return RunReport.of_tests("report", tests)


def _junit_tests(content: bytes, folder: str) -> Iterator[ReportedTest]:
    if content.count(b"<") > PARTS_MAX:
        raise ValueError("a report has fewer tags")
    text = content.decode()  # in another encoding, the next check would not see what it looks for
    if "<!" in text.replace("<!--", "").replace("<![CDATA[", ""):
        raise ValueError("a report has no document type, and entities can unfold without end")
    yield from _suite_tests(ET.fromstring(text), "", folder)  # noqa: S314


def _suite_tests(element: ET.Element, titles: str, folder: str) -> Iterator[ReportedTest]:
    """pytest has one flat suite; node nests a suite for each `describe`. `titles` are those around
    the tests."""
    for child in element:
        if child.tag == "testsuite":
            name = child.get("name", "")
            is_describe = element.tag == "testsuite" or "hostname" in child.keys()  # noqa: SIM118
            is_title = is_describe and name != "pytest"
            # Cut here, too: many tests could repeat one long title.
            inner = f"{titles}{name} > "[:_NAME_CHARACTERS_MAX] if is_title else titles
            yield from _suite_tests(child, inner, folder)
        elif child.tag == "testcase" and not _is_collection_error(child):
            yield _junit_test(child, titles, folder)


def _is_collection_error(case: ET.Element) -> bool:
    """pytest reports a file that cannot be imported like a test."""
    error = case.find("error")
    return error is not None and error.get("message") == "collection failure"


def _junit_test(case: ET.Element, titles: str, folder: str) -> ReportedTest:
    file = case.get("file")
    name = case.get("name", "")
    if file is not None:
        path = _relative(file, folder)
        return _test(path, "::".join([*_classes(case, path), name]), _junit_outcome(case))
    return _test(None, titles + name, _junit_outcome(case))


def _classes(case: ET.Element, path: str) -> list[str]:
    """The names of the classes around a Python test: `classname` is the module and the classes."""
    module = path.removesuffix(".py").replace("/", ".")
    classes = case.get("classname", "").removeprefix(module)
    return [part for part in classes.split(".") if part]


def _junit_outcome(case: ET.Element) -> CaseOutcome:
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    return "skipped" if case.find("skipped") is not None else "passed"


def _jest_tests(content: bytes, folder: str) -> Iterator[ReportedTest]:
    if content.count(b"{") + content.count(b"[") > PARTS_MAX:
        raise ValueError("a report has fewer objects and lists")
    document = json.loads(content)
    for suite in _list(document, "testResults"):
        file = suite.get("name")
        path = _relative(file, folder) if isinstance(file, str) else None
        for case in _list(suite, "assertionResults"):
            titles = [str(title) for title in _list(case, "ancestorTitles", str) if title]
            name = " > ".join([*titles, str(case.get("title", ""))])
            yield _test(path, name, _JEST_OUTCOMES.get(str(case.get("status")), "skipped"))


def _list(document: Any, key: str, kind: type = dict) -> list[Any]:
    entries = document.get(key) if isinstance(document, dict) else None
    if not isinstance(entries, list) or not all(isinstance(entry, kind) for entry in entries):
        raise ValueError(f"{key} is not a list of {kind.__name__}")
    return entries


def _relative(file: str, folder: str) -> str:
    path = os.path.relpath(file, folder) if file.startswith("/") else file
    return os.path.normpath(path)


def _test(file: str | None, name: str, outcome: CaseOutcome) -> ReportedTest:
    return ReportedTest(file, name[:_NAME_CHARACTERS_MAX], outcome)
