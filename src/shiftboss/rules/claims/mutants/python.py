"""Mutations of Python code, found in its syntax tree.

A mutant that no test can notice would count against honest work. So code whose effect is not the
business of tests is left alone: annotations, messages, logging, guards for type checkers, waiting.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Sequence
from typing import Final

from shiftboss.rules.claims.mutants.mutation import Kind, Mutation, shortened
from shiftboss.rules.claims.mutants.python_noise import (
    conditions_of,
    control_names,
    is_constant_of_time,
    is_equal_to_none,
    is_left_out,
    is_noise_call,
    is_type_union,
    parts_of,
)
from shiftboss.rules.claims.source_text import BYTE_ORDER_MARK, PythonPositions
from shiftboss.rules.claims.test_scanners.python import parse_python

_Function = ast.FunctionDef | ast.AsyncFunctionDef

# The opposite of each comparison, then its neighbour at the boundary.
_COMPARISONS: Final[dict[type[ast.cmpop], tuple[str, str, str | None]]] = {
    ast.Eq: ("==", "!=", None),
    ast.NotEq: ("!=", "==", None),
    ast.Lt: ("<", ">=", "<="),
    ast.LtE: ("<=", ">", "<"),
    ast.Gt: (">", "<=", ">="),
    ast.GtE: (">=", "<", ">"),
    ast.Is: ("is", "is not", None),
    ast.IsNot: ("is not", "is", None),
    ast.In: ("in", "not in", None),
    ast.NotIn: ("not in", "in", None),
}
_ARITHMETIC: Final[dict[type[ast.operator], tuple[str, str]]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.Pow: ("**", "*"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.BitXor: ("^", "&"),
}
_COMMENT: Final = re.compile(r"#[^\r\n]*")
_NO_COVER: Final = re.compile(r"#\s*pragma:\s*no\s*cover", re.IGNORECASE)
# Text for people has spaces, and tests rarely look at it.
_NAME_LIKE: Final = re.compile(r"[\w./:-]{1,60}", re.ASCII)
_NESTING_MAX: Final = 80
_NUMBER_MAX: Final = 10**15


def python_mutations(text: str, lines: Collection[int]) -> list[Mutation]:
    """None for code that this version of Python cannot parse."""
    try:
        return _MutationFinder(text, lines).find(parse_python(text.removeprefix(BYTE_ORDER_MARK)))
    except (SyntaxError, RecursionError):
        return []


class _MutationFinder:
    """Walks through the tree, and notes the mutations of the changed lines."""

    def __init__(self, text: str, lines: Collection[int]) -> None:
        self._text = text
        self._lines = frozenset(lines)
        positions = PythonPositions(text)
        self._at, self._line_at = positions.at, positions.line_at
        self._uncovered = {self._line_at(match.start()) for match in _NO_COVER.finditer(text)}
        self._names: list[str] = []  # of the classes and functions around
        self._depth = 0  # how many of them are functions
        self._returns_bool = False
        # For each loop around: the names that decide when a `while` ends, None for a `for`.
        self._loops: list[frozenset[str] | None] = []
        self._nesting = 0
        self._found: dict[tuple[int, int, str], Mutation] = {}

    def find(self, module: ast.Module) -> list[Mutation]:
        self._block(module.body)
        return list(self._found.values())

    # Statements.

    def _block(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            if statement.lineno not in self._uncovered and not is_left_out(statement):
                self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, _Function):
            self._function(node)
        elif isinstance(node, ast.ClassDef):
            self._inside(node)
        elif isinstance(node, ast.For | ast.AsyncFor | ast.While):
            self._loop(node)
        elif isinstance(node, ast.Break | ast.Continue):
            self._jump(node)
        elif not self._keeps_loop_going(node):
            self._removal(node)
            self._children(node)

    def _function(self, node: _Function) -> None:
        arguments = node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        defaults = [
            *zip(reversed(positional), reversed(arguments.defaults), strict=False),
            *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
        ]
        for argument, default in defaults:
            if default is not None and not is_constant_of_time(argument.arg):
                self._expression(default)
        outer, outer_loops = self._returns_bool, self._loops
        returns = node.returns
        self._returns_bool = isinstance(returns, ast.Name) and returns.id == "bool"
        self._loops = []
        self._depth += 1
        self._inside(node)
        self._depth -= 1
        self._returns_bool, self._loops = outer, outer_loops

    def _inside(self, node: _Function | ast.ClassDef) -> None:
        self._names.append(node.name)
        self._block(node.body)
        self._names.pop()

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While) -> None:
        """The condition of a `while` is not negated: the loop could run forever."""
        if isinstance(node, ast.While):
            self._replace(node.test, "False", "condition", "the loop never runs")
            self._loops.append(control_names(node))
        else:
            self._expression(node.iter)
            self._loops.append(None)
        self._block(node.body)
        self._loops.pop()
        self._block(node.orelse)

    def _jump(self, node: ast.Break | ast.Continue) -> None:
        if self._loops and self._loops[-1] is not None:
            return
        old, new = ("break", "continue") if isinstance(node, ast.Break) else ("continue", "break")
        self._replace(node, new, "jump", f"`{old}` becomes `{new}`")

    def _keeps_loop_going(self, node: ast.stmt) -> bool:
        """Whether a `while` around the statement could run forever without it."""
        if not isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Expr | ast.Delete):
            return False
        deciding = frozenset().union(*(names for names in self._loops if names is not None))
        return any(isinstance(inner, ast.Name) and inner.id in deciding for inner in ast.walk(node))

    def _removal(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Return):
            self._returned(node)
            return
        if isinstance(node, ast.Expr):
            value = node.value.value if isinstance(node.value, ast.Await) else node.value
            removable = isinstance(value, ast.Call)
        elif isinstance(node, ast.Assign):
            removable = all(isinstance(t, ast.Attribute | ast.Subscript) for t in node.targets)
        else:
            removable = isinstance(node, ast.AugAssign | ast.Delete)
        if removable:
            source = self._source(node)
            self._replace(node, "pass", "statement", f"statement removed: {source}")
        if isinstance(node, ast.AugAssign):
            self._operator(node.op, node.target, node.value, assigning=True)

    def _returned(self, node: ast.Return) -> None:
        value = node.value
        if value is None or is_equal_to_none(value):
            return
        if self._returns_bool and not isinstance(value, ast.Constant):
            negated = f"not ({self._source(value)})"
            self._replace(value, negated, "opposite", "returns the opposite")
        else:
            self._replace(node, "return None", "return", "returns None")

    # Expressions.

    def _children(self, node: ast.AST) -> None:
        for condition in conditions_of(node):
            self._condition(condition)
        for child in parts_of(node):
            if isinstance(child, ast.stmt):
                self._block([child])
            elif isinstance(child, ast.expr):
                self._expression(child)
            else:
                self._children(child)

    def _expression(self, node: ast.expr) -> None:
        """What is nested very deeply is left alone, so that it does not exhaust the stack."""
        if self._nesting == _NESTING_MAX or (isinstance(node, ast.Call) and is_noise_call(node)):
            return
        self._nesting += 1
        self._operators(node)
        self._children(node)
        self._nesting -= 1

    def _operators(self, node: ast.expr) -> None:
        if isinstance(node, ast.Compare):
            self._comparison(node)
        elif isinstance(node, ast.BoolOp):
            self._boolean(node)
        elif isinstance(node, ast.BinOp) and not is_type_union(node):
            self._operator(node.op, node.left, node.right)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            start = self._at(node.lineno, node.col_offset)
            self._note(start, start + 3, "", "condition", "`not` removed")
        elif isinstance(node, ast.Constant):
            self._constant(node)

    def _condition(self, node: ast.expr) -> None:
        """Comparisons and `not` are negated by their own mutations."""
        if isinstance(node, ast.UnaryOp) or (isinstance(node, ast.Compare) and len(node.ops) == 1):
            return
        if not isinstance(node, ast.Constant):
            negated = f"not ({self._source(node)})"
            self._replace(node, negated, "condition", f"condition negated: {self._source(node)}")

    def _comparison(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for operator, left, right in zip(node.ops, operands, operands[1:], strict=False):
            old, opposite, neighbour = _COMPARISONS[type(operator)]
            self._between(left, right, old, opposite, "comparison")
            if neighbour is not None:
                self._between(left, right, old, neighbour, "boundary")

    def _boolean(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._between(left, right, old, new, "boolean")

    def _operator(
        self, operator: ast.operator, left: ast.expr, right: ast.expr, *, assigning: bool = False
    ) -> None:
        if type(operator) not in _ARITHMETIC:
            return
        old, new = _ARITHMETIC[type(operator)]
        is_text = isinstance(left, ast.Constant | ast.JoinedStr) and old == "%"
        if not is_text:
            suffix = "=" if assigning else ""
            self._between(left, right, old + suffix, new + suffix, "arithmetic")

    def _constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self._replace(node, str(not value), "flag", f"`{value}` becomes `{not value}`")
        elif isinstance(value, int | float) and abs(value) < _NUMBER_MAX:
            self._replace(node, repr(value + 1), "number", f"`{value}` becomes `{value + 1}`")
        elif isinstance(value, str) and _NAME_LIKE.fullmatch(value):
            other = repr(f"{value}_")
            self._replace(node, other, "text", f"{value!r} becomes {other}")

    # Positions.

    def _between(self, left: ast.expr, right: ast.expr, old: str, new: str, kind: Kind) -> None:
        """Replace the operator between two operands, where only brackets and comments are."""
        start = self._at(left.end_lineno, left.end_col_offset)
        end = self._at(right.lineno, right.col_offset)
        gap = _COMMENT.sub(lambda comment: " " * len(comment[0]), self._text[start:end])
        pattern = r"\s+".join(map(re.escape, old.split()))
        bound = r"\b" if old[0].isalpha() else ""
        if match := re.search(f"{bound}{pattern}{bound}", gap):
            change = f"`{old}` becomes `{new}`"
            self._note(start + match.start(), start + match.end(), new, kind, change)

    def _replace(self, node: ast.expr | ast.stmt, new: str, kind: Kind, change: str) -> None:
        start = self._at(node.lineno, node.col_offset)
        end = self._at(node.end_lineno, node.end_col_offset)
        lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        line = next((line for line in lines if line in self._lines), None)
        if line is not None:
            self._note(start, end, new, kind, change, line)

    def _note(
        self, start: int, end: int, new: str, kind: Kind, change: str, line: int | None = None
    ) -> None:
        line = line or self._line_at(start)
        if line not in self._lines or line in self._uncovered:
            return
        function = ".".join(self._names) if self._depth else ""
        mutation = Mutation(line, shortened(change), start, end, new, kind, function)
        self._found.setdefault((start, end, new), mutation)

    def _source(self, node: ast.expr | ast.stmt) -> str:
        start = self._at(node.lineno, node.col_offset)
        return self._text[start : self._at(node.end_lineno, node.end_col_offset)]
