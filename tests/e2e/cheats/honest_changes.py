"""More small honest projects for the verifier: unusual changes, and runners other than unittest."""

from __future__ import annotations

import sys

from tests.e2e.cheats.honest_projects import (
    DOUBLE,
    HEADER,
    PLAIN,
    RIGHT,
    UNITTEST,
    UNUSUAL_TESTS,
    WRONG,
    Project,
    with_tests,
)

PYTEST_WITH_PLUGINS = (
    f"Tests pass: {sys.executable} -m pytest -q -p no:cacheprovider -p no:timeout -p no:xdist"
)
PYTEST = "Tests pass: python3 -m pytest -q -p no:cacheprovider"
NODE = "Tests pass: node --test"


def with_files(criterion: str, files: dict[str, str | bytes]) -> Project:
    base = files | {"sums.py": WRONG + DOUBLE}
    return Project(base, {"sums.py": RIGHT + DOUBLE}, criterion)


SNAPSHOT = """\
import json, pathlib
class Sums(unittest.TestCase):
    def test_snapshot(self):
        kept = json.loads(pathlib.Path(__file__).with_name("snapshot.json").read_text())
        self.assertEqual({name: total(eval(name)) for name in kept}, kept)
    def test_double(self):
        self.assertEqual(double(1), 2)
"""
MORE_TESTS = HEADER + PLAIN + "    def test_empty(self):\n        self.assertEqual(total([]), 0)\n"
CHANGES = {
    "an updated snapshot": with_tests(SNAPSHOT)._replace(
        base=with_tests(SNAPSHOT).base | {"snapshot.json": '{"[2, 3]": 2, "[]": 0}'},
        work={"sums.py": RIGHT + DOUBLE, "snapshot.json": '{"[2, 3]": 5, "[]": 0}'},
    ),
    "new tests in the old file": with_tests(PLAIN)._replace(
        work={"sums.py": RIGHT + DOUBLE, "test_it.py": MORE_TESTS}
    ),
    "a new test file": Project(
        {"sums.py": WRONG + DOUBLE},
        {"sums.py": RIGHT + DOUBLE, "test_it.py": HEADER + PLAIN},
    ),
    "a task without tests": Project(
        {"sums.py": WRONG},
        {"sums.py": RIGHT},
        "Command passes: python3 -m py_compile sums.py",
    ),
    "a refactoring without new tests": Project(
        {"sums.py": RIGHT + DOUBLE, "test_it.py": HEADER + PLAIN},
        {
            "sums.py": "def total(numbers):\n    result = 0\n    for number in numbers:\n"
            "        result += number\n    return result\n" + DOUBLE
        },
    ),
    "a renamed module": Project(
        {
            "sums.py": "from old import total\n" + DOUBLE,
            "old.py": RIGHT,
            "test_it.py": HEADER + PLAIN,
        },
        {"sums.py": "from new import total\n" + DOUBLE, "old.py": None, "new.py": RIGHT},
    ),
    "nothing but deletions": Project(
        {"sums.py": RIGHT + DOUBLE, "unused.py": WRONG, "test_it.py": HEADER + PLAIN},
        {"unused.py": None},
    ),
    "deleted lines": Project(
        {
            "sums.py": RIGHT + DOUBLE + "\n\ndef unused():\n    return 1\n",
            "test_it.py": HEADER + PLAIN,
        },
        {"sums.py": RIGHT + DOUBLE},
    ),
    "nothing but documentation": Project(
        {"sums.py": RIGHT + DOUBLE, "test_it.py": HEADER + PLAIN},
        {"README.md": "# Sums\n\nAdds.\n"},
    ),
    "a renamed test file": Project(
        {"sums.py": WRONG + DOUBLE, "test_old.py": HEADER + PLAIN},
        {"sums.py": RIGHT + DOUBLE, "test_old.py": None, "test_new.py": HEADER + PLAIN},
        UNITTEST.replace("test_it", "discover"),
    ),
}

PARAMETRISED = """\
import pytest
from sums import double, total

slow = pytest.mark.filterwarnings("default")

@pytest.mark.parametrize("numbers, expected", [([2, 3], 5), pytest.param([], 0, id="none at all")])
def test_total(numbers, expected):
    assert total(numbers) == expected

@slow
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("times", ["a/b", "c::d", "[e]"])
def test_double(number, times):
    assert double(number) == 2 * number

class TestGroup:
    class TestInner:
        def test_total(self, subtests=None):
            assert total([2, 3]) == 5
"""
FIXTURES = """\
import pytest
from sums import double, total

@pytest.fixture(scope="session")
def test_numbers():
    return []

@pytest.fixture(scope="module", params=["a", "b"])
def grown(request, test_numbers):
    test_numbers.append(2)
    yield test_numbers
    test_numbers.pop()

@pytest.fixture(autouse=True)
def checked(grown, tmp_path):
    yield
    assert grown == [2]

def test_total(grown):
    assert total(grown) == 2

def test_more(grown, capsys, monkeypatch):
    monkeypatch.setattr("sums.double", total)
    print(total([*grown, 3]))
    assert capsys.readouterr().out == "5\\n"
"""
CONFTEST = """\
import pytest

def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true")

def pytest_collection_modifyitems(config, items):
    items.reverse()
    for item in items:
        if item.get_closest_marker("slow") and not config.getoption("--slow"):
            item.add_marker(pytest.mark.skip(reason="slow"))

def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes long")

def pytest_generate_tests(metafunc):
    if "pair" in metafunc.fixturenames:
        metafunc.parametrize("pair", [(2, 3), (4, 1)])

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    item.user_properties.append(("outcome", outcome.get_result().outcome))
"""
USES_CONFTEST = """\
import pytest
from sums import double, total

def test_total(pair):
    assert total(pair) == 5

@pytest.mark.slow
def test_slow():
    assert double(1) == 3

def test_double():
    assert double(1) == 2
"""
PROPERTIES = """\
from hypothesis import assume, given, settings, strategies as st
from sums import double, total

@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(), max_size=3))
def test_total(numbers):
    assume(len(numbers) != 1)
    assert total(numbers) == sum(numbers)

@settings(max_examples=10, deadline=None)
@given(st.integers())
def test_double(number):
    assert double(number) == number + number
    assert double(0) == 0
"""
ASYNC = """\
import pytest
from sums import double, total

pytestmark = pytest.mark.anyio

@pytest.fixture
def anyio_backend():
    return "asyncio"

async def test_total():
    assert total([2, 3]) == 5

async def test_double():
    assert double(1) == 2
"""
EXAMPLES = "'''\n>>> from sums import total\n>>> total([2, 3])\n5\n'''\n"
TOTAL_TEST = "from sums import total\n\ndef test_it():\n    assert total([2, 3]) == 5\n"
DOUBLE_TEST = "from sums import double\n\ndef test_it():\n    assert double(1) == 2\n"
PYTEST_PROJECTS = {
    "parameters, fixtures, and plugins in conftest": with_files(
        PYTEST,
        {
            "conftest.py": CONFTEST,
            "test_conftest.py": USES_CONFTEST,
            "test_fixtures.py": FIXTURES,
            "test_parameters.py": PARAMETRISED,
        },
    ),
    "properties, and async tests by a plugin": with_files(
        PYTEST_WITH_PLUGINS, {"test_properties.py": PROPERTIES, "test_async.py": ASYNC}
    ),
    "doctests of modules, and equal names in two folders": with_files(
        f"{PYTEST} --doctest-modules",
        {
            "a/__init__.py": "",
            "a/examples.py": EXAMPLES,
            "a/test_it.py": TOTAL_TEST,
            "b/__init__.py": "",
            "b/test_it.py": DOUBLE_TEST,
        },
    ),
}

SUMS_JS = "exports.total = (numbers) => {body}\n"
TEST_JS = """\
const { test, describe, it } = require('node:test')
const assert = require('node:assert')
const { total } = require('./sums.js')

test('adds', async (t) => {
  await t.test('two', () => { assert.strictEqual(total([2, 3]), 5) })
})
describe('lists', () => {
  it('empty', () => { assert.strictEqual(total([]), 0) })
  it('calls back', (t, done) => { setImmediate(() => { assert.ok(total([1])); done() }) })
  it('negative', () => {
    const sums = [[-1], [-2, 1]].map((numbers) => { return total(numbers) })
    assert.deepStrictEqual(sums, [-1, -1])
  })
})
"""
NODE_PROJECTS = {
    "node": Project(
        {"sums.js": SUMS_JS.format(body="numbers.length"), "sums.test.js": TEST_JS},
        {"sums.js": SUMS_JS.format(body="numbers.reduce((a, b) => a + b, 0)")},
        NODE,
    ),
}

PROJECTS = UNUSUAL_TESTS | CHANGES | PYTEST_PROJECTS | NODE_PROJECTS
