"""How many tests passed, according to the real output of test runners."""

from __future__ import annotations

import time

import pytest

from shiftboss.rules.claims.test_runs.summaries import Counts, count_tests

pytestmark = pytest.mark.requirement("HO-05")

NODE = "# tests 2\n# suites 0\n# pass {}\n# fail 0\n# cancelled 0\n# skipped {}\n# todo 0\n"
CARGO = "test result: ok. {} passed; 0 failed; {} ignored; 0 measured; 0 filtered out; finished in"


@pytest.mark.parametrize(
    ("output", "passed"),
    [
        ("======= 3 passed, 1 skipped in 0.12s =======", 3),
        ("..s  [100%]\n2 passed, 1 skipped, 1 warning in 65.21s (0:01:05)\n", 2),
        ("1 failed, 4 passed, 2 xfailed, 1 xpassed in 0.50s", 5),
        ("1 passed, 2 subtests passed in 0.01s", 3),
        ("..\n----------\nRan 2 tests in 0.001s\n\nOK\n", 2),
        ("Ran 3 tests in 0.001s\n\nOK (skipped=1, expected failures=1)\n", 1),
        ("Test Suites: 1 passed, 1 total\nTests:       1 skipped, 2 passed, 3 total\n", 2),
        (" Test Files  1 passed (1)\n      Tests  2 passed | 1 skipped (3)\n", 2),
        ("\n\n  4 passing (5ms)\n  1 pending\n", 4),
        (" 3 pass\n 0 fail\n 5 expect() calls\nRan 3 tests across 1 files. [12.00ms]\n", 3),
        (NODE.format(2, 0), 2),
        ("ℹ tests 1\nℹ suites 0\nℹ pass 1\nℹ fail 0\n", 1),
        ("ok  \texample.com/a\t0.003s\n?   \texample.com/b\t[no test files]\n", 1),
        ("ok  \texample.com/a\t(cached)\n", 1),
        ("=== RUN   TestA\n--- PASS: TestA (0.00s)\nPASS\nok  \texample.com/a\t0.003s\n", 1),
        (f"{CARGO.format(2, 0)} 0.00s\n{CARGO.format(0, 1)} 0.00s\n", 2),
        ("ok | 3 passed | 0 failed (5ms)\n", 3),
        ("\x1b[32m\x1b[1m2 passed\x1b[0m\x1b[32m in 0.01s\x1b[0m", 2),
        ("2 passed in 0.01s\r\n", 2),
        ("2 skipped in 0.01s\nTests:       2 passed, 2 total\n", 2),
    ],
)
def test_passed_tests_are_counted(output: str, passed: int) -> None:
    found = count_tests(output)
    assert found is not None
    assert found.passed == passed


@pytest.mark.parametrize(
    ("output", "ran", "passed"),
    [
        ("1 failed, 4 passed, 2 xfailed, 3 skipped, 1 error in 0.50s", 5, 4),
        ("Ran 6 tests in 0.001s\n\nFAILED (failures=1, errors=2, skipped=1)\n", 5, 2),
        ("Ran 4 tests in 0.001s\n\nFAILED (failures=1, expected failures=2)\n", 2, 1),
        ("Tests:       1 failed, 1 skipped, 2 passed, 4 total\n", 3, 2),
        ("      Tests  1 failed | 2 passed | 1 skipped (4)\n", 3, 2),
        ("  4 passing (5ms)\n  1 pending\n  2 failing\n", 6, 4),
        (" 3 pass\n 1 skip\n 2 fail\n 5 expect() calls\n", 5, 3),
        ("# tests 3\n# pass 1\n# fail 2\n# skipped 0\n", 3, 1),
        ("test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured\n", 3, 2),
        ("FAILED | 3 passed | 1 failed (5ms)\n", 4, 3),
        ("FAIL\texample.com/a\t0.003s\nok  \texample.com/b\t0.1s\n", 2, 1),
        ("--- FAIL: TestA (0.00s)\nFAIL\texample.com/a\t0.003s\nok  \tb\t0.1s\n", 2, 1),
        ("--- PASS: TestA (0.0s)\n--- FAIL: TestB (0.0s)\nFAIL\texample.com/a\t0.003s\n", 2, 1),
    ],
)
def test_failed_tests_count_as_run(output: str, ran: int, passed: int) -> None:
    assert count_tests(output) == Counts(ran, passed)


@pytest.mark.parametrize(
    "output",
    [
        "===== 2 skipped in 0.01s =====",
        "1 deselected in 0.01s",
        "1 skipped, 2 xfailed in 0.01s",
        "===== no tests ran in 0.00s =====",
        "ss\n-----\nRan 2 tests in 0.000s\n\nOK (skipped=2)\n",
        "-----\nRan 0 tests in 0.000s\n\nOK\n",
        "-----\nRan 0 tests in 0.000s\n\nNO TESTS RAN\n",
        "Test Suites: 1 skipped, 0 of 1 total\nTests:       2 skipped, 2 total\n",
        "Tests:       1 todo, 1 total\n",
        "No tests found, exiting with code 0\n",
        " Test Files  1 skipped (1)\n      Tests  2 skipped (2)\n",
        "      Tests  no tests\n",
        "No test files found, exiting with code 0\n",
        "  0 passing (1ms)\n  2 pending\n",
        " 0 pass\n 2 skip\n 0 fail\nRan 2 tests across 1 files. [9.00ms]\n",
        NODE.format(0, 2),
        "ℹ tests 1\nℹ pass 0\nℹ skipped 1\n",
        "?   \texample.com/a\t[no test files]\n?   \texample.com/b\t[no test files]\n",
        "testing: warning: no tests to run\nPASS\nok  \texample.com/a\t0.002s [no tests to run]\n",
        "=== RUN   TestA\n--- SKIP: TestA (0.00s)\nPASS\nok  \texample.com/a\t0.003s\n",
        f"{CARGO.format(0, 2)} 0.00s\n{CARGO.format(0, 0)} 0.00s\n",
        "ok | 0 passed | 0 failed | 2 ignored (2ms)\n",
    ],
)
def test_a_run_without_passed_tests_is_recognised(output: str) -> None:
    assert count_tests(output) == Counts(0, 0)


@pytest.mark.parametrize(
    "output",
    ["", "done\n", "12 modules in 0.55s\n", "okay\n", "All tests are fine, 3 of 3\n"],
)
def test_other_output_yields_no_count(output: str) -> None:
    assert count_tests(output) is None


@pytest.mark.parametrize("filling", ["1", "1 passed, ", " ", "Tests: 1", "\x1b[", "\n"])
def test_hostile_output_is_scanned_in_linear_time(filling: str) -> None:
    """A quadratic pattern would need minutes for this."""
    output = "Tests: " + filling * (65_536 // len(filling))
    started = time.process_time()
    count_tests(output)
    assert time.process_time() - started < 2.0


@pytest.mark.parametrize(
    "line", ["Tests: {}", "Tests: {} total", "ok | 1 passed {}", "{} passing ("]
)
def test_long_rows_of_digits_are_scanned_once(line: str) -> None:
    output = (line.format("1" * 280) + "\n") * 3000
    started = time.process_time()
    count_tests(output)
    assert time.process_time() - started < 1.0
