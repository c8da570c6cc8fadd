"""Sabotages one assertion of a Python test: a changed expected value, or the opposite assertion.

The result must fail wherever the original passes, and it must not look like sabotage.
A changed value keeps its type, because code that cheats may compare equal to everything of that
type; and it is changed by chance, because such code may know how values are usually changed.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Sequence
from random import Random, SystemRandom
from typing import Final, NamedTuple

from shiftboss.rules.claims.canaries.edits import (
    LETTERS,
    SabotagedCases,
    SabotageKind,
    value_change,
    word,
)
from shiftboss.rules.claims.canaries.python_source import PythonSource
from shiftboss.rules.claims.source_text import TextEdit

_OPPOSITES: Final = (
    ("assertTrue", "assertFalse"),
    ("assertEqual", "assertNotEqual"),
    ("assertAlmostEqual", "assertNotAlmostEqual"),
    ("assertIn", "assertNotIn"),
    ("assertIs", "assertIsNot"),
    ("assertIsNone", "assertIsNotNone"),
    ("assertIsInstance", "assertNotIsInstance"),
    ("assertGreater", "assertLessEqual"),
    ("assertLess", "assertGreaterEqual"),
    ("assertRegex", "assertNotRegex"),
)
_OPPOSITE: Final = dict(_OPPOSITES) | {second: first for first, second in _OPPOSITES}
_EQUALITIES: Final = frozenset(
    (
        "assertEqual",
        "assertAlmostEqual",
        "assertCountEqual",
        "assertDictEqual",
        "assertIs",
        "assertListEqual",
        "assertMultiLineEqual",
        "assertSequenceEqual",
        "assertSetEqual",
        "assertTupleEqual",
    )
)
# What equals more than one value may also equal the changed one.
_VAGUE: Final = frozenset(("approx", "ANY", "isclose"))
_EFFECTS: Final = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)

_ANY_CHANCE: Final = SystemRandom()
_STEPS: Final = (1, 2, 3, 4, 5, 6, 7, -1, -2, -3)


class Rewrite(NamedTuple):
    kind: SabotageKind
    change: str
    line: int
    edit: TextEdit
    cases: SabotagedCases = "all"


def assertion_rewrites(
    source: PythonSource, statement: ast.stmt, receiver: str | None, random: Random
) -> Iterator[Rewrite]:
    """All ways to sabotage a statement if it is an assertion. `receiver` is the name that the test
    gives to its test case, usually `self`."""
    expected = expected_literal(statement, receiver)
    if expected is not None:
        yield from changed_values(source, expected, random)
    if isinstance(statement, ast.Assert):
        start, end = source.start(statement.test), source.end(statement.test)
        # In `assert(x) == 1` there is nothing between the word and the expression.
        space = " " if source.text[start - 1].isalpha() else ""
        for shape in negations(statement.test, source.snippet(statement.test)):
            edit = TextEdit(start, end, space + shape)
            yield Rewrite("negation", "assertion negated", statement.test.lineno, edit)
    elif (call := assertion_call(statement, receiver)) is not None:
        yield from _opposite_method(source, call)


def expected_literal(statement: ast.stmt, receiver: str | None) -> ast.expr | None:
    """The side of an equality that is a literal, if it can equal only one value."""
    if isinstance(statement, ast.Assert) and _is_bool_identity(statement.test):
        assert isinstance(statement.test, ast.Compare)
        return statement.test.comparators[0]
    sides = _compared(statement, receiver)
    return next((side for side in sides if changeable_part(side) is not None), None)


def compared_names(statement: ast.stmt, receiver: str | None) -> list[str]:
    """The names that are one side of an equality all alone. What is identical is also equal."""
    sides = _compared(statement, receiver, (ast.Eq, ast.Is))
    return [side.id for side in sides if isinstance(side, ast.Name)]


def is_vague(node: ast.AST) -> bool:
    """Whether it may equal more than one value, and so the changed one, too."""
    return any(
        (isinstance(inner, ast.Name) and inner.id in _VAGUE)
        or (isinstance(inner, ast.Attribute) and inner.attr in _VAGUE)
        for inner in ast.walk(node)
    )


def changed_values(
    source: PythonSource, expected: ast.expr, random: Random, when: str | None = None
) -> Iterator[Rewrite]:
    """With `when`, the value is only another one if this condition is true."""
    part = changeable_part(expected)
    new = changed_literal(part, random) if part is not None else None
    if part is not None and new is not None:
        old = source.snippet(part)
        replacement = new if when is None else f"({new} if {when} else {old})"
        edit = TextEdit(source.start(part), source.end(part), replacement)
        yield Rewrite("value", value_change(old, new), part.lineno, edit)


def assertion_call(statement: ast.stmt, receiver: str | None) -> ast.Call | None:
    """The call of `self.assertEqual(...)` and the like."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    method, owner = call.func.attr, call.func.value
    if not isinstance(owner, ast.Name) or owner.id != receiver:
        return None
    return call if method in _OPPOSITE or method in _EQUALITIES else None


def has_effect(statement: ast.stmt, receiver: str | None) -> bool:
    """Whether anything could be missing later if the statement is not reached."""
    if isinstance(statement, ast.Pass):
        return False
    call = assertion_call(statement, receiver)
    if call is not None:
        parts: list[ast.AST] = [*call.args, *call.keywords]
    elif isinstance(statement, ast.Assert | ast.Return | ast.Expr):
        parts = [statement]
    else:
        return True
    return any(isinstance(node, _EFFECTS) for part in parts for node in ast.walk(part))


def last_statements(body: Sequence[ast.stmt], receiver: str | None) -> list[ast.stmt]:
    """Those that nothing with an effect follows."""
    statements: list[ast.stmt] = []
    for statement in reversed(body):
        statements.append(statement)
        if has_effect(statement, receiver):
            break
    return statements[::-1]


def _opposite_method(source: PythonSource, call: ast.Call) -> Iterator[Rewrite]:
    assert isinstance(call.func, ast.Attribute)
    method = call.func.attr
    if method in _OPPOSITE:
        end = source.end(call.func)
        edit = TextEdit(end - len(method), end, _OPPOSITE[method])
        yield Rewrite("negation", f"{method} changed to {edit.replacement}", call.lineno, edit)


def _is_bool_identity(test: ast.expr) -> bool:
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return False
    expected = test.comparators[0]
    is_bool = isinstance(expected, ast.Constant) and isinstance(expected.value, bool)
    return isinstance(test.ops[0], ast.Is) and is_bool


def _compared(
    statement: ast.stmt, receiver: str | None, operators: tuple[type[ast.cmpop], ...] = (ast.Eq,)
) -> list[ast.expr]:
    """Both sides of an equality that the statement asserts, the second first; or nothing."""
    sides: list[ast.expr] = []
    if isinstance(statement, ast.Assert):
        test = statement.test
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in operators:
            sides = [test.comparators[0], test.left]
    elif (call := assertion_call(statement, receiver)) is not None and _is_exact(call):
        sides = [call.args[1], call.args[0]]
    return [] if any(is_vague(side) for side in sides) else sides


def _is_exact(call: ast.Call) -> bool:
    assert isinstance(call.func, ast.Attribute)
    method = call.func.attr
    if method not in _EQUALITIES or any(keyword.arg != "msg" for keyword in call.keywords):
        return False
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        return False
    # The third argument is a message, except where it is a tolerance.
    return 2 <= len(call.args) <= (2 if method == "assertAlmostEqual" else 3)


def changeable_part(node: ast.expr) -> ast.expr | None:
    """The literal itself, or one inside of a list, tuple, set or dictionary."""
    if isinstance(node, ast.List | ast.Tuple | ast.Set) and node.elts:
        parts = (changeable_part(element) for element in node.elts)
        return next((part for part in parts if part is not None), None)
    if isinstance(node, ast.Dict) and node.keys:
        # Of equal keys the last one counts.
        return changeable_part(node.values[-1]) if node.keys[-1] is not None else None
    if node.lineno != node.end_lineno:
        return None
    return node if changed_literal(node, _ANY_CHANCE) is not None else None


def changed_literal(node: ast.expr, random: Random) -> str | None:
    """Source of another value of the same type, or None if the node is not a literal."""
    if isinstance(node, ast.List | ast.Tuple | ast.Dict):
        added = random.choice(range(100))
        text = {ast.List: "[{0}]", ast.Tuple: "({0},)", ast.Dict: "{{{0}: {0}}}"}[type(node)]
        return text.format(added)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = node.operand.value if isinstance(node.operand, ast.Constant) else None
        if isinstance(number, int | float) and not isinstance(number, bool):
            return _changed_number(-number, random)
    return _changed_constant(node.value, random) if isinstance(node, ast.Constant) else None


def _changed_constant(value: object, random: Random) -> str | None:
    if value is None:
        return str(random.choice(range(100)))
    if isinstance(value, bool):
        return repr(not value)
    if isinstance(value, int | float):
        return _changed_number(value, random)
    if not isinstance(value, str | bytes):
        return None
    # One letter more, so that it is another text wherever it is put.
    at = random.choice(range(len(value), -1, -1))
    letter = random.choice(LETTERS)
    if isinstance(value, bytes):
        return repr(value[:at] + letter.encode() + value[at:])
    return ascii(value[:at] + letter + value[at:])


def _changed_number(value: float, random: Random) -> str | None:
    changed = value + random.choice(_STEPS)
    # Too large, or so large that it stays the same.
    if isinstance(value, float) and not (math.isfinite(value) and abs(value) < 2**50):
        return None
    try:
        return repr(changed)
    except ValueError:  # more digits than Python prints
        return None


# The compiler warns of `is` with one of these.
_LITERALS: Final = (ast.Constant, ast.Tuple, ast.List, ast.Dict, ast.Set, ast.JoinedStr)


def negations(test: ast.expr, snippet: str) -> list[str]:
    """Expressions that are false if the expression `test` is true. They compute it, because of its
    effects."""
    shapes = [
        f"not ({snippet})",
        f"(False if ({snippet}) else True)",
        f"({snippet}) and False",
        f"({snippet}) and None",
    ]
    if not isinstance(test, _LITERALS):
        shapes += [f"({snippet}) is False", f"({snippet}) is None"]
    return shapes


def failures(random: Random) -> list[str]:
    """Statements that raise."""
    text = word(random)
    number = random.choice(range(2, 1000))
    return [
        f'raise AssertionError("{text}")',
        f'assert False, "{text}"',
        f"assert {number} < {number - random.choice(range(1, 50))}",
        f'assert "{text}" == "{text}{word(random)}"',
        f"assert not {number}",
        f"{number} / 0",
        f'int("{text}")',
        f'{{}}["{text}"]',
        f'[].remove("{text}")',
    ]
