"""Sabotages one assertion of a Python test: a changed expected value, or the opposite assertion.

The result must fail wherever the original passes, and it must not look like sabotage: a changed
value keeps its type, because code that cheats may compare equal to everything of that type.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from typing import Final, NamedTuple

from shiftboss.rules.claims.canaries.edits import SabotageKind, value_change
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


class Rewrite(NamedTuple):
    kind: SabotageKind
    change: str
    line: int
    edit: TextEdit


def assertion_rewrites(
    source: PythonSource, statement: ast.stmt, receiver: str | None
) -> Iterator[Rewrite]:
    """All ways to sabotage a statement if it is an assertion. `receiver` is the name that the test
    gives to its test case, usually `self`."""
    if isinstance(statement, ast.Assert):
        expected = _expected_of_assert(statement.test)
        if expected is not None:
            yield from _changed_values(source, expected)
        snippet = source.snippet(statement.test)
        edit = TextEdit(
            source.start(statement.test), source.end(statement.test), f"not ({snippet})"
        )
        yield Rewrite("negation", "assertion negated", statement.test.lineno, edit)
    elif (call := assertion_call(statement, receiver)) is not None:
        expected = _expected_of_call(call)
        if expected is not None:
            yield from _changed_values(source, expected)
        yield from _opposite_method(source, call)


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


def _opposite_method(source: PythonSource, call: ast.Call) -> Iterator[Rewrite]:
    assert isinstance(call.func, ast.Attribute)
    method = call.func.attr
    if method in _OPPOSITE:
        end = source.end(call.func)
        edit = TextEdit(end - len(method), end, _OPPOSITE[method])
        yield Rewrite("negation", f"{method} changed to {edit.replacement}", call.lineno, edit)


def _expected_of_assert(test: ast.expr) -> ast.expr | None:
    """The literal of `x == literal` or `literal == x`; with `is`, only a boolean."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    (operator,) = test.ops
    if isinstance(operator, ast.Eq):
        return _literal_of(test.comparators[0], test.left)
    expected = test.comparators[0]
    if isinstance(operator, ast.Is) and isinstance(expected, ast.Constant):
        return expected if isinstance(expected.value, bool) else None
    return None


def _expected_of_call(call: ast.Call) -> ast.expr | None:
    assert isinstance(call.func, ast.Attribute)
    method = call.func.attr
    if method not in _EQUALITIES or any(keyword.arg != "msg" for keyword in call.keywords):
        return None
    # The third argument is a message, except where it is a tolerance.
    arguments_max = 2 if method == "assertAlmostEqual" else 3
    if not 2 <= len(call.args) <= arguments_max:
        return None
    return _literal_of(call.args[1], call.args[0])


def _literal_of(second: ast.expr, first: ast.expr) -> ast.expr | None:
    """The side that is a literal, if it can equal only one value."""
    if _is_vague(first) or _is_vague(second):
        return None
    return next((one for one in (second, first) if _changeable_part(one) is not None), None)


def _is_vague(node: ast.expr) -> bool:
    return any(
        (isinstance(inner, ast.Name) and inner.id in _VAGUE)
        or (isinstance(inner, ast.Attribute) and inner.attr in _VAGUE)
        for inner in ast.walk(node)
    )


def _changed_values(source: PythonSource, expected: ast.expr) -> Iterator[Rewrite]:
    part = _changeable_part(expected)
    new = _changed(part) if part is not None else None
    if part is not None and new is not None:
        edit = TextEdit(source.start(part), source.end(part), new)
        yield Rewrite("value", value_change(source.snippet(part), new), part.lineno, edit)


def _changeable_part(node: ast.expr) -> ast.expr | None:
    """The literal itself, or one inside of a list, tuple, set or dictionary."""
    if isinstance(node, ast.List | ast.Tuple | ast.Set) and node.elts:
        parts = (_changeable_part(element) for element in node.elts)
        return next((part for part in parts if part is not None), None)
    if isinstance(node, ast.Dict) and node.keys:
        # Of equal keys the last one counts.
        return _changeable_part(node.values[-1]) if node.keys[-1] is not None else None
    return node if node.lineno == node.end_lineno and _changed(node) is not None else None


def _changed(node: ast.expr) -> str | None:
    """Source of another value of the same type, or None if the node is not a literal."""
    if isinstance(node, ast.List | ast.Tuple | ast.Dict):
        return {ast.List: "[0]", ast.Tuple: "(0,)", ast.Dict: "{0: 0}"}[type(node)]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = node.operand.value if isinstance(node.operand, ast.Constant) else None
        if isinstance(number, int | float) and not isinstance(number, bool):
            return _changed_number(-number)
    return _changed_constant(node.value) if isinstance(node, ast.Constant) else None


def _changed_constant(value: object) -> str | None:
    if value is None:
        return "0"
    if isinstance(value, bool):
        return repr(not value)
    if isinstance(value, int | float):
        return _changed_number(value)
    if isinstance(value, str):
        return ascii(value + "x")
    return repr(value + b"x") if isinstance(value, bytes) else None


def _changed_number(value: float) -> str | None:
    if isinstance(value, float) and not (math.isfinite(value) and value + 1 != value):
        return None
    try:
        return repr(value + 1)
    except ValueError:  # more digits than Python prints
        return None
