"""Sabotaged files, run by their real runners: what was sabotaged fails, and nothing else does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from random import SystemRandom

import pytest

from shiftboss.rules.claims.canaries.sabotage import Sabotage, apply_sabotages, sabotages
from tests.programs import program

pytestmark = pytest.mark.requirement("OWN-13")

UNITTEST = '''\
"""Sums."""
import unittest
from unittest import mock

STEPS = []

class Shared:
    def test_inherited(self):
        """Runs in two classes."""
        self.assertEqual(self.one + 1, 2, "sum")

class First(Shared, unittest.TestCase):
    one = 1

    def test_1_prepares(self):
        STEPS.append(1)
        self.assertEqual(STEPS, [1])

    def test_2_goes_on(self):
        self.assertIn(1, STEPS); STEPS.append(2)
        self.assertTrue(len(STEPS) == 2)

    def test_3_ends(self):
        self.assertEqual(STEPS, [1, 2])

    @mock.patch("os.getpid", return_value=7)
    def test_patched(self, getpid):
        import os
        assert os.getpid() == 7, f"not {7}"

    def test_source(self):
        with open(__file__, encoding="utf-8") as source:
            lines = source.read().splitlines()
        self.assertEqual(lines[34].strip(), "# line 35")
        # line 35

    def test_raises(self):
        with self.assertRaises(ZeroDivisionError):
            1 / 0

class Second(Shared, unittest.TestCase):
    one = 1
    def test_subtests(self):
        for number in (1, 2):
            with self.subTest(number=number):
                self.assertGreater(number, 0)

class Third(unittest.IsolatedAsyncioTestCase):
    async def test_awaits(self):
        async def two():
            return 2
        self.assertEqual(await two(), 2)

if __name__ == "__main__":
    unittest.main()
'''
PYTEST = """\
import pytest
from hypothesis import given, strategies as st

pytestmark = pytest.mark.filterwarnings("error")

@pytest.fixture
def test_data():
    return {"ä": "ö"}

@pytest.mark.parametrize("number", [1, pytest.param(2, id="two")])
def test_parameters(number):
    assert number in (1, 2)

@given(st.integers())
def test_property(number):
    assert number + 0 == number

def test_fixture(test_data):
    assert test_data == {"ä": "ö"}

def test_exit():
    if not pytest:
        return
    assert True

class TestGroup:
    class TestInner:
        def test_one_line(self): assert 1 + 1 == 2; assert True

    @pytest.mark.anyio
    async def test_awaits(self):
        assert True

@pytest.fixture
def anyio_backend():
    return "asyncio"
"""
NODE = """\
'use strict'
const { test, describe, it } = require('node:test')
const assert = require('node:assert/strict')

test('adds', () => { assert.equal(1 + 1, 2); });
describe('lists', () => {
  it('maps', async () => {
    const doubled = [1, 2].map((x) => { return 2 * x })
    assert.deepEqual(doubled, [2, 4]) // as a list
  })
  it('leaves', () => {
    if (process.pid) return
    assert.equal(1, 1)
  })
  it('calls back', (t, done) => { setImmediate(done) })
})
"""
RUST = """\
//! Sums.
#![deny(warnings)]
pub fn add(a: i32, b: i32) -> i32 { a + b }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds() { assert_eq!(add(1, 1), 2); }

    #[test]
    fn parses() -> Result<(), std::num::ParseIntError> {
        let one: i32 = "1".parse()?;
        assert_eq!(one, 1);
        Ok(())
    }

    #[test]
    #[should_panic]
    fn overflows() { panic!("as it must"); }
}
"""


def run(folder: Path, *argv: str) -> str:
    done = subprocess.run(argv, cwd=folder, capture_output=True, timeout=60, check=False)
    return (done.stdout + done.stderr).decode()


def by_kind(path: str, text: str) -> dict[str, list[Sabotage]]:
    """For each kind, the sabotages of all tests that can be sabotaged in this way, in any shape."""
    kinds: dict[str, dict[str, list[Sabotage]]] = {"none": {}}
    for one in sabotages(path, text):
        kinds.setdefault(one.kind, {}).setdefault(one.test, []).append(one)
    # The same shape for all, because two tests may be the same function.
    shape = SystemRandom().randrange(100)
    return {
        kind: [options[shape % len(options)] for options in tests.values()]
        for kind, tests in kinds.items()
    }


def test_unittest_reports_what_was_sabotaged_and_nothing_else(tmp_path: Path) -> None:
    kinds = by_kind("test_it.py", UNITTEST)
    assert {kind: len(chosen) for kind, chosen in kinds.items()} == {
        "none": 0,
        "value": 7,
        "negation": 8,
        "raise": 10,
    }
    for chosen in kinds.values():
        text = apply_sabotages("test_it.py", UNITTEST, chosen, "nonce")
        (tmp_path / "test_it.py").write_text(text)
        output = run(tmp_path, "python3", "-m", "unittest", "-v", "test_it")
        outcomes = dict(re.findall(r"\(test_it\.(\w+\.\w+)\)\n?.*? \.\.\. (\w+)$", output, re.M))
        failed = {name.replace(".", "::") for name in outcomes if outcomes[name] != "ok"}
        sabotaged = {one.test for one in chosen}
        assert len(outcomes) == 10, output
        assert failed == sabotaged, output


def test_pytest_reports_what_was_sabotaged_and_nothing_else(tmp_path: Path) -> None:
    kinds = by_kind("test_it.py", PYTEST)
    every = {one.test: one for chosen in kinds.values() for one in chosen}
    assert every.keys() == {
        *("test_parameters", "test_property", "test_fixture"),
        *("TestGroup::test_awaits", "TestGroup::TestInner::test_one_line"),
    }
    for chosen in ([*every.values()][::2], [*every.values()][1::2]):
        text = apply_sabotages("test_it.py", PYTEST, chosen, "nonce")
        (tmp_path / "test_it.py").write_text(text)
        output = run(tmp_path, sys.executable, "-m", "pytest", "-q", "-rA", "test_it.py")
        cases = re.findall(r"^(PASSED|FAILED) test_it\.py::([\w:]+)", output, re.M)
        assert len(cases) == 7, output
        failed = {name for outcome, name in cases if outcome == "FAILED"}
        assert failed == {one.test for one in chosen}, output


TABLES = """\
import unittest
import pytest

ROWS = [("a b", "a-b"), ("c", "c")]
WANT = ["a", "b"]

def slug(text):
    return text.replace(" ", "-")

@pytest.mark.parametrize("text, want", [("a b", "a-b"), pytest.param("c d", "c-d", id="two")])
def test_parameters(text, want):
    result = slug(text)
    assert result == want

@pytest.mark.parametrize("text,want", ROWS)
def test_named_rows(text, want): assert slug(text) == want

def test_loop():
    for text, want in [("a b", "a-b"), ("c d", "c-d")]:
        assert slug(text) == want

def test_loop_with_one_value():
    for text in ("a b", "a-b"):
        assert slug(text) == "a-b"

def test_dictionary():
    for text, want in {"a b": "a-b", "c": "c"}.items():
        assert slug(text) == want

def test_constant():
    assert slug("a b").split("-") == WANT

class TestLocal(unittest.TestCase):
    def test_local(self):
        want = "a-b"
        self.assertEqual(slug("a b"), want)
"""


def test_each_way_to_sabotage_makes_its_test_fail_and_no_other(tmp_path: Path) -> None:
    ways = sabotages("test_it.py", TABLES)
    assert len({one.test for one in ways if one.kind == "value"}) == 7
    for number, one in enumerate(ways):
        text = apply_sabotages("test_it.py", TABLES, [one], "nonce")
        (tmp_path / f"test_{number}.py").write_text(text)
    options = ("-q", "-rA", "-W", "error", "-p", "no:randomly", "--tb=no")
    output = run(tmp_path, "python3", "-m", "pytest", *options)
    cases = re.findall(r"^(PASSED|FAILED) test_(\d+)\.py::([\w:]+)", output, re.M)
    assert len(cases) == 9 * len(ways), output
    for number, one in enumerate(ways):
        outcomes = [(name, outcome) for outcome, file, name in cases if int(file) == number]
        failed = {name for name, outcome in outcomes if outcome == "FAILED"}
        assert failed == {one.test}, (one, output)
        passed = (one.test, "PASSED") in outcomes
        assert passed is (one.cases == "some"), one


@pytest.mark.parametrize("kind", ["none", "value", "raise"])
def test_node_reports_what_was_sabotaged_and_nothing_else(tmp_path: Path, kind: str) -> None:
    chosen = by_kind("a.test.js", NODE)[kind]
    (tmp_path / "a.test.js").write_text(apply_sabotages("a.test.js", NODE, chosen, "nonce"))
    output = run(tmp_path, "node", "--test-reporter=tap", "a.test.js")
    cases = re.findall(r"^ *(ok|not ok) \d+ - ([\w ]+)$", output, re.M)
    assert {name for _, name in cases} == {"adds", "lists", "maps", "leaves", "calls back"}
    failed = {name for outcome, name in cases if outcome == "not ok"}
    assert failed - {"lists"} == {one.test.removeprefix("lists > ") for one in chosen}, output
    assert kind == "none" or len(chosen) == 2


def test_rust_reports_what_was_sabotaged_and_nothing_else(tmp_path: Path) -> None:
    chosen = by_kind("src/lib.rs", RUST)["raise"]
    (tmp_path / "lib.rs").write_text(apply_sabotages("src/lib.rs", RUST, chosen, "nonce"))
    compiled = run(tmp_path, program("rustc"), "--test", "lib.rs", "-o", "tests")
    output = run(tmp_path, "./tests")
    cases = re.findall(r"^test ([\w:]+)(?: - should panic)? \.\.\. (ok|FAILED)$", output, re.M)
    assert dict(cases) == {
        "tests::adds": "FAILED",
        "tests::parses": "FAILED",
        "tests::overflows": "ok",
    }, compiled + output
