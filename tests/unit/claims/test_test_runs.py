"""Which runner a command starts, what it reports, and when a run of tests is a pass."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

import pytest

from shiftboss.rules.claims.criteria import CommandResult
from shiftboss.rules.claims.test_runs.judgement import (
    CommandRun,
    Judgement,
    judge_base_tests,
    judge_run,
)
from shiftboss.rules.claims.test_runs.report_files import (
    PARTS_MAX,
    REPORT_BYTES_MAX,
    read_report,
)
from shiftboss.rules.claims.test_runs.run_report import (
    CaseOutcome,
    ReportedTest,
    RunReport,
    missing_tests,
)
from shiftboss.rules.claims.test_runs.runners import ReportFormat, RunnerName, reporting_command
from shiftboss.rules.claims.test_runs.summaries import count_tests
from shiftboss.rules.claims.test_runs.test_output import printed_report
from shiftboss.rules.claims.test_runs.unexplained_tests import unexplained_tests

pytestmark = [pytest.mark.requirement("OWN-13"), pytest.mark.requirement("HO-05")]

FOLDER = "/checkout/files"
PYTEST_XML = """\
<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests"><testsuite name="pytest"
 errors="1" failures="1" skipped="2" tests="7" hostname="vm">
<testcase classname="t.test_a.TestX" name="test_y" file="t/test_a.py" line="2" time="0.002" />
<testcase classname="t.test_a" name="test_p[x/y::z]" file="t/test_a.py" line="6" />
<testcase classname="t.test_a" name="test_xf" file="t/test_a.py"><skipped type="pytest.xfail"/>
</testcase>
<testcase classname="t.test_a.TestO.TestN" name="test_q" file="t/test_a.py"><failure>no</failure>
</testcase>
<testcase classname="" name="t.test_b"><error message="collection failure">no</error></testcase>
</testsuite></testsuites>"""
NODE_XML = """\
<?xml version="1.0" encoding="utf-8"?>
<testsuites>
	<testsuite name="outer" tests="2" failures="0" skipped="1" hostname="vm">
		<testcase name="inner" classname="test"/>
		<testcase name="sk" classname="test"><skipped type="skipped" message="true"/></testcase>
	</testsuite>
	<testcase name="plain" classname="test"/>
	<testcase name="fails" classname="test" failure="x"><failure type="x">&lt;</failure></testcase>
	<!-- tests 4 -->
</testsuites>"""
UNITTEST = """\
test_four (tests.test_sums.Sums.test_four) ... skipped 'at the base'
test_one (tests.test_sums.Sums.test_one)
What it is about ... ok
test_three (tests.test_sums.Sums.test_three) ... printed
ok
test_two (tests.test_sums.Sums) ... FAIL

======================================================================
FAIL: test_two (tests.test_sums.Sums.test_two)
----------------------------------------------------------------------
Traceback (most recent call last):
AssertionError: 2 != 3

----------------------------------------------------------------------
Ran 4 tests in 0.001s

FAILED (failures=1, skipped=1)
"""
GO = """\
=== RUN   TestA
--- PASS: TestA (0.00s)
=== RUN   TestB
=== RUN   TestB/deep
    --- FAIL: TestB/deep (0.00s)
--- FAIL: TestB (0.00s)
FAIL
FAIL\texample.com/a\t0.003s
"""
CARGO = """\
     Running unittests src/lib.rs (target/debug/deps/sums-1f)
running 2 tests
test tests::adds ... ok
test tests::slow ... ignored, too slow
     Running tests/api.rs (target/debug/deps/api-2e)
test panics - should panic ... ok
   Doc-tests sums
test src/lib.rs - add (line 3) ... FAILED
test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s
"""


def ended(code: int | None = 0, message: str = "as it was") -> CommandResult:
    return CommandResult(code, False, False, "", 5, message)


def reported(*tests: tuple[str, CaseOutcome], file: str | None = "tests/test_a.py") -> RunReport:
    return RunReport.of_tests(
        "report", [ReportedTest(file, name, outcome) for name, outcome in tests]
    )


def run(
    report: RunReport | None,
    *,
    code: int | None = 0,
    runner: RunnerName | None = "pytest",
    must_report: bool = False,
) -> CommandRun:
    return CommandRun(runner, must_report, ended(code), report)


@pytest.mark.parametrize(
    ("command", "runner"),
    [
        ("pytest -q", "pytest"),
        ("python3.12 -X dev -m pytest tests", "pytest"),
        ("uv run --frozen pytest -q", "pytest"),
        ("poetry run python -m pytest", "pytest"),
        ("coverage run -m unittest", "unittest"),
        ("python -m coverage run -m pytest", "pytest"),
        ("/usr/bin/python3 -m unittest tests.test_sums", "unittest"),
        ("npx jest --ci", "jest"),
        ("node node_modules/.bin/vitest run", "vitest"),
        ("node --test src/", "node"),
        ("timeout 60 go test ./...", "go"),
        ("cargo test --all", "cargo"),
        ("make test", None),
        ("npm test", None),
        ("./pytest-wrapper pytest", None),
        ("python -c pytest", None),
        ("python check.py -m pytest", None),
        ("python -m tox -m pytest", None),
        ("go vet ./...", None),
    ],
)
def test_the_runner_of_a_command_is_known_by_its_words(command: str, runner: str | None) -> None:
    assert reporting_command(command.split(), "/report").runner == runner


def test_a_runner_is_asked_for_a_report_in_its_own_way() -> None:
    pytest_command = reporting_command(["pytest", "-q"], "/re port")
    assert pytest_command.environment == {
        "PYTEST_ADDOPTS": "'--junitxml=/re port' -o junit_family=xunit1 --maxfail=0"
    }
    assert reporting_command(["make", "test"], "/r").environment.keys() == {"PYTEST_ADDOPTS"}
    own = reporting_command(["pytest", "--junitxml=own.xml"], "/r")
    assert own.argv[-1] == "--junitxml=/r"
    assert reporting_command(["go", "test", "./..."], "/r").argv == ["go", "test", "-v", "./..."]
    assert reporting_command(["npx", "jest", "--bail"], "/r").argv == [
        *("npx", "jest", "--json", "--outputFile=/r")
    ]
    assert reporting_command(["pytest", "-x"], "/r").argv == ["pytest", "-x", "--maxfail=0"]
    assert reporting_command(["cargo", "test"], "/r").argv == ["cargo", "test", "--no-fail-fast"]
    assert reporting_command(["node", "--test"], "/r").argv[-2:] == [
        "--test-reporter-destination=/r",
        "--test",
    ]


def test_pytests_report_names_each_test() -> None:
    report = read_report(PYTEST_XML.encode(), "junit", FOLDER)
    assert report is not None
    assert [test.label for test in report.tests] == [
        "t/test_a.py::TestX::test_y",
        "t/test_a.py::test_p[x/y::z]",
        "t/test_a.py::test_xf",
        "t/test_a.py::TestO::TestN::test_q",
    ]
    assert (report.ran, report.passed, report.skipped) == (3, 2, 1)
    assert report.tests[1].function == ("t/test_a.py", "test_p")


def test_the_report_of_node_names_each_test_with_its_titles() -> None:
    report = read_report(NODE_XML.encode(), "junit", FOLDER)
    assert report is not None
    assert [(test.name, test.outcome) for test in report.tests] == [
        ("outer > inner", "passed"),
        ("outer > sk", "skipped"),
        ("plain", "passed"),
        ("fails", "failed"),
    ]


def test_the_report_of_jest_names_each_test_with_its_file() -> None:
    case = {"ancestorTitles": ["outer"], "title": "adds", "status": "passed"}
    suite = {"name": f"{FOLDER}/src/a.test.js", "assertionResults": [case]}
    content = json.dumps({"testResults": [suite]}).encode()
    report = read_report(content, "jest", FOLDER)
    assert report is not None
    assert list(report.tests) == [ReportedTest("src/a.test.js", "outer > adds", "passed")]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hello",
        b"<testsuites><testcase",
        b'<!DOCTYPE a [<!ENTITY b "c">]><testsuites>&b;</testsuites>',
        '<?xml version="1.0" encoding="utf-16"?><!DOCTYPE a><testsuites/>'.encode("utf-16"),
        b"\xff\xfe",
        b"<a>" * 100_000,
    ],
)
def test_what_is_no_report_counts_as_missing(content: bytes) -> None:
    assert read_report(content, "junit", FOLDER) is None
    assert read_report(content, "jest", FOLDER) is None


TOO_MANY = PARTS_MAX + 1


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"<testsuites>" + b"<a/>" * TOO_MANY + b"</testsuites>", "junit"),
        (b"<testsuite>" * 20_000 + b"</testsuite>" * 20_000, "junit"),
        (b'{"testResults": [], "more": [' + b"{}," * TOO_MANY + b"{}]}", "jest"),
        (b"<testsuites>" + b" " * REPORT_BYTES_MAX + b"</testsuites>", "junit"),
    ],
    ids=["elements", "depth", "objects", "bytes"],
)
def test_a_file_with_too_much_in_it_is_no_report(content: bytes, kind: ReportFormat) -> None:
    assert read_report(content, kind, FOLDER) is None


def test_a_long_title_is_not_repeated_for_each_test() -> None:
    suite = f'<testsuite name="{"x" * 200_000}" hostname="h">{"<testcase/>" * 20_000}</testsuite>'
    started = time.process_time()
    report = read_report(f"<testsuites>{suite}</testsuites>".encode(), "junit", FOLDER)
    assert report is not None
    assert report.ran == 20_000
    assert time.process_time() - started < 1.0


def test_only_the_tests_of_suites_are_read() -> None:
    case = '<testcase name="test_a" file="t.py"/>'
    text = f"<testsuites><other>{case}</other><testcase>{case}</testcase></testsuites>"
    report = read_report(text.encode(), "junit", FOLDER)
    assert report is not None
    assert [test.name for test in report.tests] == [""]


@pytest.mark.parametrize("part", ["[", "a", "a.", " ", "]["])
def test_hostile_names_are_read_in_linear_time(part: str) -> None:
    name = part * (1000 // len(part)) + "]"
    report = RunReport.of_tests("report", [ReportedTest(None, name, "passed")] * 2000)
    started = time.process_time()
    named = report.with_files(["a/" * 200 + "b.py", "a.py"])
    assert [len(test.function_name) for test in named.tests]
    assert time.process_time() - started < 2.0


@pytest.mark.parametrize(
    ("name", "function", "bare"),
    [
        ("Class::test_x[a[1]]", "Class::test_x", "test_x"),
        ("sums > adds [] twice", "sums > adds [] twice", "twice"),
        ("m.Class.test_x", "m.Class.test_x", "test_x"),
        ("test]", "test]", "test]"),
    ],
)
def test_a_name_without_parameters(name: str, function: str, bare: str) -> None:
    test = ReportedTest("t.py", name, "passed")
    assert (test.function, test.function_name) == (("t.py", function), bare)


@pytest.mark.parametrize("content", [b"[]", b"{}", b'{"testResults": [1]}', b"[" * 100_000])
def test_json_of_another_form_is_no_report(content: bytes) -> None:
    assert read_report(content, "jest", FOLDER) is None


def test_unittest_prints_each_test() -> None:
    report = printed_report("unittest", UNITTEST)
    assert report is not None
    assert report.source == "output"
    named = report.with_files(["tests/test_sums.py", "src/sums.py"])
    assert [(test.label, test.outcome) for test in named.tests] == [
        ("tests/test_sums.py::Sums::test_four", "skipped"),
        ("tests/test_sums.py::Sums::test_one", "passed"),
        ("tests/test_sums.py::Sums::test_three", "passed"),
        ("tests/test_sums.py::Sums::test_two", "failed"),
    ]


def test_printed_tests_that_do_not_add_up_are_only_counted() -> None:
    cut = UNITTEST.replace("test_two (tests.test_sums.Sums) ... FAIL\n", "")
    report = printed_report("unittest", cut)
    assert report is not None
    assert (report.source, report.ran, report.passed) == ("summary", 3, 2)


def test_go_and_cargo_print_each_test() -> None:
    go = printed_report("go", GO)
    assert go is not None
    assert [(test.name, test.outcome) for test in go.tests] == [
        ("example.com/a TestA", "passed"),
        ("example.com/a TestB/deep", "failed"),
        ("example.com/a TestB", "failed"),
    ]
    cargo = printed_report("cargo", CARGO)
    assert cargo is not None
    assert list(cargo.tests) == [
        ReportedTest(None, "src/lib.rs tests::adds", "passed"),
        ReportedTest(None, "src/lib.rs tests::slow", "skipped"),
        ReportedTest("tests/api.rs", "panics", "passed"),
        ReportedTest(None, "doc-tests sums src/lib.rs - add (line 3)", "failed"),
    ]


def test_the_summary_of_an_unknown_runner_is_described_by_the_policy() -> None:
    template = "{passed} checks passed, {failed} bad (a+b)"
    output = "9 checks passed, 9 bad (a+b)\n3 checks passed, 1 bad (a+b)\n"
    counts = count_tests(output, template)
    assert counts is not None
    assert (counts.ran, counts.passed) == (4, 3), "the last one counts"
    assert count_tests("5 passed in 0.01s", template) is None


def test_exit_code_zero_without_a_report_is_no_pass() -> None:
    assert judge_run(run(None)).outcome == "failed"
    assert judge_run(run(None, runner="unittest")).outcome == "failed"
    assert judge_run(run(None, runner=None)).outcome == "unverifiable"
    assert judge_run(run(None, runner=None), reported(("a", "passed"))).outcome == "failed"
    summary = RunReport("summary", (), 1, 1)
    assert judge_run(run(summary, must_report=True)).outcome == "failed"
    assert judge_run(run(summary, runner=None)).outcome == "passed"


def test_passed_tests_do_not_outweigh_the_exit_code() -> None:
    assert judge_run(run(reported(("a", "passed")), code=1)) == Judgement("failed", "as it was")
    assert judge_run(run(reported(("a", "passed")), code=None)).outcome == "failed"


def test_failed_tests_are_no_pass_whatever_the_exit_code() -> None:
    failed = reported(("a", "passed"), ("b", "failed"))
    assert "1 test failed: tests/test_a.py::b" in judge_run(run(failed)).message
    repeated = reported(("a", "passed"), ("b", "failed"), ("b", "passed"))
    assert judge_run(run(repeated)).outcome == "passed"


PLAIN = """
def test_a(): pass
def test_b(): pass
@mark
def test_c(): pass
class TestX:
    def test_d(self): pass
    def test_e(self): pass
class TestY:
    def test_f(self): pass
def test_g(): pass
del test_g
"""


def unexplained(
    now: RunReport, text: str = PLAIN, *words: str, others: Sequence[str] = ()
) -> list[str]:
    return unexplained_tests(now, {"tests/test_a.py": text}, others, None, words)


def test_plain_tests_beside_reported_ones_must_be_reported() -> None:
    now = reported(("test_a", "passed"), ("TestX::test_d", "passed"))
    assert unexplained(now) == ["tests/test_a.py::test_b", "tests/test_a.py::TestX::test_e"]
    assert unexplained(now, PLAIN, "-k", "a") == []
    assert unexplained(now, PLAIN, "tests/test_a.py::test_a") == []
    assert unexplained(reported(("test_a", "passed"), ("test_b", "passed"))) == []


def test_only_the_tests_themselves_may_skip() -> None:
    now = reported(("test_a", "passed"), ("test_b", "skipped"), ("test_g", "skipped"))
    assert unexplained(now) == ["tests/test_a.py::test_b", "tests/test_a.py::test_g"]
    assert unexplained(now, f"{PLAIN}\npytest.skip") == []
    assert unexplained(now, others=["def pytest_runtest_setup(): skip()"]) == []
    assert unexplained_tests(now, {"tests/test_a.py": PLAIN}, (), now, ()) == []


def test_skipped_tests_are_no_pass() -> None:
    judgement = judge_run(run(reported(("a", "skipped"))))
    assert judgement.outcome == "failed"
    assert "no test passed" in judgement.message


def test_new_tests_do_not_make_up_for_tests_of_the_base() -> None:
    base = reported(("a", "passed"), ("b", "failed"), ("c", "skipped"))
    now = reported(("a", "passed"), ("b", "skipped"), ("x", "passed"), ("y", "passed"))
    judgement = judge_run(run(now), base)
    assert judgement.outcome == "failed"
    assert "tests/test_a.py::b" in judgement.message
    still_there = {"tests/test_a.py": "def b(): off()"}
    assert judge_run(run(now), base, still_there).outcome == "failed"


def test_tests_may_be_moved_and_renamed() -> None:
    base = reported(("C::a", "passed"))
    moved = reported(("C::a", "passed"), file="tests/test_b.py")
    files = {"tests/test_a.py": "from test_b import a", "tests/test_b.py": "def a(): pass"}
    assert judge_run(run(moved), base).outcome == "failed"
    assert judge_run(run(moved), base, files).outcome == "passed"
    renamed = reported(("C::b", "passed"))
    assert judge_run(run(renamed), base, {"tests/test_a.py": "def b()"}).outcome == "passed"


def test_only_numbers_are_compared_by_number() -> None:
    base = RunReport("summary", (), 3, 2)
    assert judge_run(run(RunReport("summary", (), 2, 2)), base).message == (
        "3 tests ran at the base, only 2 pass now: were any removed or skipped?"
    )
    assert judge_run(run(RunReport("summary", (), 3, 3)), base).outcome == "passed"
    named = reported(("a", "passed"))
    assert judge_run(run(RunReport("summary", (), 9, 9)), named).outcome == "failed"


def test_the_parameters_of_a_test_may_change_but_not_become_fewer() -> None:
    before = reported(("t[1]", "passed"), ("t[2]", "passed")).tests
    assert missing_tests(before, reported(("t[8]", "passed"), ("t[9]", "passed")).tests) == []
    fewer = missing_tests(before, reported(("t[8]", "passed"), ("t[9]", "skipped")).tests)
    assert [test.name for test in fewer] == ["t[1]", "t[2]"]


def test_the_tests_of_the_base_must_pass_in_their_version_of_the_base() -> None:
    base = reported(("a", "passed"), ("b", "failed"))
    files = {"tests/test_a.py"}
    now = reported(("a", "passed"), ("b", "passed"))
    new = ReportedTest("tests/test_new.py", "n", "failed")
    assert judge_base_tests(run(now, code=1), base, files).outcome == "passed"
    with_new = RunReport.of_tests("report", [*now.tests, new])
    assert judge_base_tests(run(with_new, code=1), base, files).outcome == "passed"
    assert judge_base_tests(run(reported(("a", "passed"))), base, files).outcome == "failed"
    unknown_at_base = reported(("a", "passed"), ("b", "passed"), ("c", "failed"))
    judged = judge_base_tests(run(unknown_at_base, code=1), base, files)
    assert "tests/test_a.py::c" in judged.message
    assert judge_base_tests(run(None), base, files).outcome == "failed"


def test_thousands_of_renamed_tests_are_looked_up_in_linear_time() -> None:
    """A search of the text for each of them would need many seconds."""
    names = [f"test_{number}" for number in range(5000)]
    text = "\n".join(f"def {name}_new(): ..." for name in names * 3)
    before = [ReportedTest("t.py", name, "passed") for name in (*names, "test_kept")]
    now = [ReportedTest("t.py", f"{name}_new", "passed") for name in names]
    started = time.process_time()
    missing = missing_tests(before, now, {"t.py": text + "\ntest_kept"})
    assert [test.name for test in missing] == ["test_kept"]
    assert time.process_time() - started < 1.0
