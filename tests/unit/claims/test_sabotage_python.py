"""Which tests of a Python file can be sabotaged, and what becomes of the file."""

from __future__ import annotations

import ast
import textwrap
import time
import unittest
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftboss.rules.claims.canaries.sabotage import Sabotage, apply_sabotages, sabotages
from tests.unit.claims.chance import First

pytestmark = pytest.mark.requirement("OWN-13")


def offered(text: str) -> list[Sabotage]:
    return sabotages("tests/test_it.py", textwrap.dedent(text), First())


def names(text: str) -> set[str]:
    return {sabotage.test for sabotage in offered(text)}


def sabotaged(text: str, kind: str) -> str:
    """The line with the only sabotage of the kind."""
    (line,) = lines_of(text, kind)
    return line


def lines_of(text: str, kind: str) -> list[str]:
    """The changed line of each sabotage of the kind."""
    lines = []
    for one in [sabotage for sabotage in offered(text) if sabotage.kind == kind]:
        changed = apply_sabotages("tests/test_it.py", textwrap.dedent(text), [one], "n")
        lines.append(changed.splitlines()[one.line - 1].strip().removesuffix("  # n"))
    return lines


@pytest.mark.parametrize(
    ("assertion", "changed"),
    [
        ("assert f() == 5", "assert f() == 6"),
        ("assert 5 == f()", "assert 6 == f()"),
        ("assert f() == -1", "assert f() == 0"),
        ("assert f() == 0x10, 'why'", "assert f() == 17, 'why'"),
        ("assert f() == 0.5", "assert f() == 1.5"),
        ("assert f() == 'ä'", r"assert f() == '\xe4x'"),
        ("assert 'ö' + f('ü') == 'ä'", r"assert 'ö' + f('ü') == '\xe4x'"),
        ("assert f() == b'a'", "assert f() == b'ax'"),
        ("assert f() is True", "assert f() is False"),
        ("assert f() == None", "assert f() == 0"),
        ("assert f() == [x, 1, 2]", "assert f() == [x, 2, 2]"),
        ("assert f() == {'a': 1, 'b': (2,)}", "assert f() == {'a': 1, 'b': (3,)}"),
        ("assert f() == {1}", "assert f() == {2}"),
        ("assert f() == []", "assert f() == [0]"),
        ("assert f() == {}", "assert f() == {0: 0}"),
        ("assert f() == ()", "assert f() == (0,)"),
        ("assert (await f()) == 5", "assert (await f()) == 6"),
    ],
)
def test_an_expected_value_is_changed_within_its_type(assertion: str, changed: str) -> None:
    assert sabotaged(f"async def test_it():\n    {assertion}\n", "value") == changed


@pytest.mark.parametrize(
    ("assertion", "changed"),
    [
        ("self.assertEqual(f(), 5)", "self.assertEqual(f(), 6)"),
        ("self.assertEqual(5, f(), 'why')", "self.assertEqual(6, f(), 'why')"),
        ("self.assertEqual(f(), 5, msg='why')", "self.assertEqual(f(), 6, msg='why')"),
        ("self.assertListEqual(f(), ['a'])", "self.assertListEqual(f(), ['ax'])"),
        ("self.assertAlmostEqual(f(), 5)", "self.assertAlmostEqual(f(), 6)"),
        ("self.assertIs(f(), False)", "self.assertIs(f(), True)"),
    ],
)
def test_the_value_of_an_assertion_method_is_changed(assertion: str, changed: str) -> None:
    text = f"class TestIt(TestCase):\n    def test_it(self):\n        {assertion}\n"
    assert sabotaged(text, "value") == changed


@pytest.mark.parametrize(
    "assertion",
    [
        "assert f() != 5",
        "assert f() > 5",
        "assert f() in (1, 2)",
        "assert 1 == f() == 1",
        "assert f() == x",
        "assert f() == f'{x}'",
        "assert f() == [x, *y]",
        "assert f() == {'a': 1, **x}",
        "assert f() is None",
        "assert f() == 1e300",
        "assert approx(5, abs=3) == 5",
        "assert [mock.ANY, 1] == [7, 1]",
        "assert f() == (\n        'a'\n        'b'\n    )",
    ],
)
def test_a_value_that_may_not_matter_is_not_changed(assertion: str) -> None:
    text = f"def test_it():\n    {assertion}\n"
    assert {sabotage.kind for sabotage in offered(text)} == {"negation", "raise"}


@pytest.mark.parametrize(
    "assertion",
    [
        "self.assertAlmostEqual(f(), 5, 1)",
        "self.assertAlmostEqual(f(), 5, delta=3)",
        "self.assertEqual(*x)",
        "self.assertEqual(f(), second=5)",
        "self.assertNotEqual(f(), 5)",
        "self.assertIn(f(), (1, 2))",
    ],
)
def test_the_value_of_a_tolerant_assertion_is_not_changed(assertion: str) -> None:
    text = f"class TestIt(TestCase):\n    def test_it(self):\n        {assertion}\n"
    assert {sabotage.kind for sabotage in offered(text)} == {"negation", "raise"}


@pytest.mark.parametrize(
    ("assertion", "changed"),
    [
        ("assert f(), 'why'", "assert not (f()), 'why'"),
        ("assert (x := f())", "assert (not (x := f()))"),
        ("assert not f() == 1", "assert not (not f() == 1)"),
        ("self.assertTrue(f())", "self.assertFalse(f())"),
        ("self.assertNotIn(1, f())", "self.assertIn(1, f())"),
        ("self.assertGreater(f(), x)", "self.assertLessEqual(f(), x)"),
    ],
)
def test_an_assertion_is_negated(assertion: str, changed: str) -> None:
    text = f"class TestIt(TestCase):\n    def test_it(self):\n        {assertion}\n"
    assert lines_of(text, "negation")[0] == changed


def test_negations_and_raises_have_many_shapes() -> None:
    text = "def test_it():\n    assert f() == x\n"
    assert lines_of(text, "negation") == [
        "assert not (f() == x)",
        "assert (False if (f() == x) else True)",
        "assert (f() == x) and False",
        "assert (f() == x) and None",
        "assert (f() == x) is False",
        "assert (f() == x) is None",
    ]
    assert lines_of("def test_it():\n    assert(f()) == x\n", "negation")[0] == (
        "assert not ((f()) == x)"
    )
    raising = [one.replacement for one in offered(text) if one.kind == "raise"]
    assert len({one.split()[1] for one in raising}) > 5


def test_what_is_put_into_a_test_is_another_in_every_run() -> None:
    text = "def test_it():\n    assert f() == 'a long text'\n"
    runs = [{one.replacement for one in sabotages("test_it.py", text)} for _ in range(2)]
    kept = {"not (f() == 'a long text')"}
    same = {one for one in runs[0] & runs[1] if "f()" not in one}
    assert kept <= runs[0] & runs[1]
    assert len(same) < 3, "only a short text may be the same by chance"


PARAMETERS = (
    "@pytest.mark.parametrize({}, {})\ndef test_it(text, want):\n    assert f(text) == want\n"
)


@pytest.mark.parametrize(
    ("names", "rows", "changed"),
    [
        ("'text,want'", "[('a', 1), ('b', 2)]", ["('a', 2), ('b', 2)", "('a', 1), ('b', 3)"]),
        ("('text', 'want')", "[['a', 'b']]", ["['a', 'bx']"]),
        ("'want, text'", "[(None, 1)], ids=['x']", ["(0, 1)"]),
        ("'text,want'", "[pytest.param('a', 1, id='x')]", ["pytest.param('a', 2, id='x')"]),
        ("'text,want'", "[(x, [y, 1])]", ["(x, [y, 2])"]),
        ("'text,want'", "[('a', approx(1))]", []),
        ("'text,want'", "[('a', g(1)), *more]", []),
        ("'text,want'", "[('a', 1)], indirect=True", []),
        ("'text,want'", "[('a', 1, 2)]", []),
        ("'text'", "['a']", []),
    ],
)
def test_the_expected_value_in_a_row_of_parameters_is_changed(
    names: str, rows: str, changed: list[str]
) -> None:
    text = PARAMETERS.format(names, rows)
    found = lines_of(text, "value")
    assert [line for line in found if "parametrize" not in line] == []
    assert [line.partition("[")[2].rpartition("]")[0] for line in found] == [
        (one if "ids" not in rows else f"{one}], ids=['x'") for one in changed
    ]
    assert {one.cases for one in offered(text) if one.kind == "value"} == (
        {"some"} if found else set()
    )


@pytest.mark.parametrize(
    "test",
    [
        "def test_it(want):\n    assert f(want) == want",
        "def test_it(want):\n    assert want == want",
        "def test_it(want):\n    assert f() == [want]",
        "def test_it(want):\n    if x:\n        assert f() == want",
        "def test_it(want):\n    want = g()\n    assert f() == want",
        "def test_it(want):\n    assert f() == want\n    g()",
        "def test_it(want, result):\n    assert result == want",
        "def test_it(want):\n    assert f(**locals()) == want",
        "def test_it(want):\n    assert approx(f()) == want",
        "def test_it(want):\n    assert f() != want",
    ],
)
def test_a_parameter_that_may_be_more_than_the_expected_value_is_not_changed(test: str) -> None:
    text = f"@pytest.mark.parametrize('want', [1, 2])\n{test}\n"
    assert lines_of(text, "value") == []


@pytest.mark.parametrize(
    ("body", "changed"),
    [
        ("for a, b in [(1, 2), (3, 4)]:\n  assert f(a) == b", ["for a, b in [(1, 2), (3, 5)]:"]),
        (
            "for a, b in {1: 2, 3: 4}.items():\n  assert f(a) == b",
            ["for a, b in {1: 2, 3: 5}.items():"],
        ),
        ("for b in ('a', 'b'):\n  x = g()\n  self.assertEqual(x, b)", ["for b in ('a', 'bx'):"]),
        ("for a in (1, 2):\n  assert f(a) == 5", ["assert f(a) == (6 if a == 2 else 5)"]),
        ("for a in (1, 2):\n  assert f(a) is True", ["assert f(a) is (False if a == 2 else True)"]),
        ("rows = [(1, 2)]\n for a, b in rows:\n  assert f(a) == b", ["rows = [(1, 3)]"]),
        ("for a, b in ROWS:\n  assert f(a) == b", ["ROWS = [(1, 8)]"]),
        ("want = 'a'\n assert f() == want", ["want = 'ax'"]),
        ("assert f() == WANT", ["WANT = 10"]),
        ("for a, b in [(1, True)]:\n  assert f(a) is b", ["for a, b in [(1, False)]:"]),
        ("for a, b in [(1, True)]:\n  assert f(a) is not b", []),
        ("assert f() == SHARED", []),
        ("want = 1\n assert f(want) == want", []),
        ("want = 1\n want += 1\n assert f() == want", []),
        ("if x:\n  want = 1\n assert f() == want", []),
        ("for a in []:\n  assert f(a) == 5", []),
        ("for a in (1, 1):\n  assert f(a) == 5", []),
        ("for a in (1, 2):\n  a = g(a)\n  assert f(a) == 5", []),
        ("for a in g():\n  assert f(a) == 5", []),
        ("for a, b in [(1, 2), *x]:\n  assert f(a) == b", []),
        ("for a, b in [(1, 2)]:\n  if a: continue\n  assert f(a) == b", []),
        ("for a, b in [(1, 2)]:\n  assert f(a) == b\n  g()", []),
        ("for a, b in [(1, 2)]:\n  assert f(a) == b\n g()", []),
        ("for a, b in [(1, 2)]:\n  assert f(b) == b", []),
        ("for a, b in [(1, approx(2))]:\n  assert f(a) == b", []),
    ],
)
def test_a_value_that_only_one_assertion_compares_with_is_changed(
    body: str, changed: list[str]
) -> None:
    constants = "ROWS = [(1, 7)]\nWANT = 9\nSHARED = other = 9\n"
    text = f"{constants}def test_it(self):\n {body}\n"
    assert lines_of(text, "value") == changed
    assert {one.cases for one in offered(text)} <= {"all"}


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        ("pass", {"raise"}),
        ("'''What it does.'''", {"raise"}),
        ("with raises(E):\n        assert f() == 1\n", {"raise"}),
        ("for x in y:\n        assert x == 1\n", {"raise"}),
        ("if x:\n        assert x == 1\n", {"raise"}),
        ("try:\n        assert x == 1\n    finally:\n        g()\n", {"raise"}),
        ("match x:\n        case 1:\n            assert x == 1\n", {"raise"}),
        ("def inner():\n        return 1\n    assert inner() == 1", {"value", "negation", "raise"}),
        ("assert f() == 1\n    g()", {"raise"}),
        ("assert f() == 1\n    assert g()", {"negation", "raise"}),
        ("assert f() == 1\n    assert x", {"value", "negation", "raise"}),
        ("assert f() == 1\n    self.assertTrue(x)", {"value", "negation", "raise"}),
        ("assert f() == 1\n    return", {"value", "negation"}),
        ("if x:\n        return\n    assert f() == 1", set()),
        ("for x in y:\n        assert x\n    # done", set()),
        ("yield 1\n    assert f() == 1", set()),
        ("if x:\n        pytest.skip('no')\n    assert f() == 1", set()),
        ("raise E", set()),
    ],
)
def test_only_the_end_that_every_passing_run_reaches_is_sabotaged(
    body: str, kinds: set[str]
) -> None:
    text = f"import pytest\ndef test_it(self):\n    {body}\n"
    assert {sabotage.kind for sabotage in offered(text)} == kinds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "def test_a(): pass\nasync def test_b(): pass\ndef helper(): pass\n",
            {"test_a", "test_b"},
        ),
        ("def test_a(): pass\ndef test_a(): pass\ndef test_b(): pass\n", {"test_b"}),
        ("class TestA:\n    def test_x(self): pass\n    def test_x(self): pass\n", set()),
        (
            "class TestA:\n    class TestB:\n        def test_x(self): pass\n",
            {"TestA::TestB::test_x"},
        ),
        ("class A(TestCase):\n    def test_x(self): pass\n", {"A::test_x"}),
        ("class A(TestCase):\n    async def test_x(self): pass\n", set()),
        ("class A(IsolatedAsyncioTestCase):\n    async def test_x(self): pass\n", {"A::test_x"}),
        ("class Helper:\n    def test_x(self): pass\n", set()),
        ("class TestA(ABC):\n    def test_x(self): pass\n", set()),
        ("class TestA(metaclass=M):\n    def test_x(self): pass\n", set()),
        ("class TestA:\n    def __init__(self): pass\n    def test_x(self): pass\n", set()),
        ("def test_a(): pass\ntest_a = other(test_a)\n", set()),
        ("if x:\n    def test_a(): pass\n", set()),
        ("import pytest\npytestmark = pytest.mark.skip\ndef test_a(): pass\n", set()),
        ("@pytest.mark.dependency\ndef test_a(): pass\ndef test_b(): pass\n", {"test_b"}),
        ("first = pytest.mark.dependency()\n@first\ndef test_a(): pass\n", set()),
        ("@pytest.mark.incremental\nclass TestA:\n    def test_x(self): pass\n", set()),
        ("pytestmark = [pytest.mark.incremental]\ndef test_a(): pass\n", set()),
        ("class TestA:\n    pytestmark = mark.incremental\n    def test_x(self): pass\n", set()),
        ("# see mark.dependency\ndef test_a():\n    'mark.incremental'\n", {"test_a"}),
        ("def test_a(): pass\nthis is no Python\n", set()),
    ],
)
def test_only_tests_that_a_runner_collects_once_are_offered(text: str, expected: set[str]) -> None:
    assert names(text) == expected


@pytest.mark.parametrize(
    ("decorator", "is_offered"),
    [
        ("pytest.mark.parametrize('x', [1, 2])", True),
        ("pytest.mark.slow", True),
        ("slow", True),
        ("given(st.integers())", True),
        ("mock.patch.object(a, 'b')", True),
        ("patch('a.b')", True),
        ("pytest.mark.parametrize('x', [pytest.param(1, marks=pytest.mark.xfail)])", False),
        ("pytest.mark.xfail(strict=True)", False),
        ("unittest.expectedFailure", False),
        ("unittest.skipIf(x, 'no')", False),
        ("later", False),
        ("pytest.fixture", False),
        ("parameterized.expand([1])", False),
        ("raises(ValueError)", False),
    ],
)
def test_a_decorator_must_be_known_to_leave_the_outcome_alone(
    decorator: str, *, is_offered: bool
) -> None:
    text = (
        "import pytest, unittest\n"
        "slow = pytest.mark.slow\n"
        "later = pytest.mark.skip\n"
        f"@{decorator}\ndef test_it(x):\n    assert f(x) == 1\n"
        f"@{decorator}\nclass TestIt:\n    def test_it(self):\n        pass\n"
    )
    assert names(text) == ({"test_it", "TestIt::test_it"} if is_offered else set())


def test_an_inherited_test_is_a_test_of_every_class_that_runs_it() -> None:
    text = """
        class Shared:
            def test_a(self): pass
            def test_b(self): pass
        class One(Shared, TestCase):
            def test_b(self): pass
        class Two(One): pass
        class Three(Shared, TestCase): pass
    """
    found = [one for one in offered(text) if one.kind == "raise"]
    places = {one.test: one.line for one in found}
    assert places == {
        **dict.fromkeys(["One::test_a", "Two::test_a", "Three::test_a"], 3),
        **dict.fromkeys(["One::test_b", "Two::test_b"], 6),
        "Three::test_b": 4,
    }


@pytest.mark.parametrize(
    ("bases", "found"),
    [("C{0}, C{0}", 1), ("C{0}", 20), ("C0", 2000)],
    ids=["in many ways", "from each other", "from one"],
)
def test_many_classes_that_inherit_cost_little(bases: str, found: int) -> None:
    text = "class C0(TestCase):\n    def test_x(self): pass\n"
    text += "".join(f"class C{n}({bases.format(n - 1)}): pass\n" for n in range(1, 2000))
    assert len(names(text)) == found


@pytest.mark.parametrize(
    "body",
    [" assert x == 1\n" * 4_000, " for a, b in ROWS:\n" + "  assert a == b\n" * 4_000],
)
def test_a_python_file_that_is_written_to_waste_time_does_not(body: str) -> None:
    started = time.process_time()
    sabotages("test_it.py", f"ROWS = [(1, 2)]\ndef test_it():\n{body}")
    assert time.process_time() - started < 10


FILE = '''\
#!/usr/bin/env python3
# -*- coding: utf-8 -*-
"""What is tested."""
from __future__ import annotations
import unittest; import math

class TestSums(unittest.TestCase):
\tdef test_tab(self):
\t\tself.assertEqual("ä" + 'ö', "äö"); self.assertTrue(True)

\tdef test_with(self):
\t\twith self.subTest():
\t\t\tself.assertEqual(1, 1)

def test_plain(): assert 1 + 1 == 2  # a comment
def test_lines():
    assert [
        1,
        2,
    ] == [1, 2]
    if True:
        pass
'''


@pytest.mark.parametrize(
    "text",
    [FILE, FILE.replace("\n", "\r\n"), "\ufeff" + FILE.partition("\n")[2], FILE.rstrip("\n"), ""],
    ids=["lines", "CRLF", "byte order mark", "no last line end", "empty"],
)
def test_comments_change_no_line_number_and_no_behaviour(text: str) -> None:
    changed = apply_sabotages("test_it.py", text, [], "nonce")
    assert changed.count("nonce") == (5 if text else 0)
    assert changed.count("\n") == text.count("\n")
    assert changed.count("\r\n") == text.count("\r\n")
    assert '"""  # nonce' not in changed, "some tests look at the docstring of their file"
    before, after = (ast.parse(one.removeprefix("\ufeff")) for one in (text, changed))
    assert ast.dump(before) == ast.dump(after)


@pytest.mark.parametrize("text", [FILE, FILE.replace("\n", "\r\n"), FILE.rstrip("\n")])
def test_every_sabotage_changes_only_its_own_test(text: str) -> None:
    functions = {"TestSums::test_tab", "TestSums::test_with", "test_plain", "test_lines"}
    found = sabotages("test_it.py", text)
    assert {one.test for one in found} <= functions
    for one in found:
        changed = apply_sabotages("test_it.py", text, [one], "nonce")
        assert changed.count("\n") == text.count("\n")
        before, after = _functions(text), _functions(changed)
        name = one.test.rpartition("::")[2]
        assert {key for key in before if before[key] != after[key]} == {name}


def _functions(text: str) -> dict[str, str]:
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    return {node.name: ast.dump(node) for node in nodes}


numbers = st.floats(allow_nan=False, allow_infinity=False)
literals = st.recursive(
    st.none() | st.booleans() | st.integers() | numbers | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


FAILURES = (AssertionError, ZeroDivisionError, ValueError, KeyError)


@given(value=literals, method=st.booleans(), swapped=st.booleans())
def test_a_sabotaged_test_fails_whatever_the_value(
    value: Any, *, method: bool, swapped: bool
) -> None:
    sides = ["given", repr(value)][:: -1 if swapped else 1]
    assertion = (
        f"self.assertEqual({', '.join(sides)})" if method else f"assert {' == '.join(sides)}"
    )
    text = (
        "from unittest import TestCase\n"
        "class TestIt(TestCase):\n"
        f"    def test_it(self):\n        {assertion}\n"
    )
    _outcome(text, value)()
    for one in sabotages("test_it.py", text):
        with pytest.raises(FAILURES):
            _outcome(apply_sabotages("test_it.py", text, [one], "n"), value)()


def _outcome(text: str, given_value: object) -> Callable[[], object]:
    namespace: dict[str, Any] = {"given": given_value}
    exec(compile(text, "test_it.py", "exec"), namespace)
    case: unittest.TestCase = namespace["TestIt"]("test_it")
    return case.debug
