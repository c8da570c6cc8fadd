"""Finds the tests of a Python file, for pytest and unittest."""

from __future__ import annotations

import ast
import copy
import re
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from shiftboss.rules.claims.test_scanners.source import ScannedTest

SWITCHES: Final = frozenset(
    ("skip", "skipif", "skipIf", "skipUnless", "xfail", "expectedFailure", "SkipTest")
)
_LIBRARIES: Final = frozenset(("pytest", "unittest"))
# Limits for modules that were written to waste time.
_NAMES_MAX: Final = 50
_NODES_MAX: Final = 40


_parsing: Final = threading.Lock()


def parse_python(text: str | bytes) -> ast.Module:
    """Raises SyntaxError for code that this version of Python cannot parse.

    Threads must not parse at once: they share a counter of the nesting in CPython 3.11, and a
    switch between them ends in a SystemError (https://github.com/python/cpython/issues/106905).
    They share the filters of warnings, too.
    """
    with _parsing, warnings.catch_warnings():
        # Such as the warning about an invalid escape sequence.
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except (ValueError, RecursionError, MemoryError) as error:
            raise SyntaxError(str(error)) from error


def with_plain_names(module: ast.Module) -> ast.Module:
    """Replace aliases of ways to disable tests by what they stand for.

    `import pytest as p`, `from pytest import skip as later` and `off = pytest.mark.skip` define
    aliases. After the replacement, a search for `pytest.skip` finds them.
    """
    meanings: dict[str, ast.expr] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Import | ast.ImportFrom):
            meanings |= _imported(node)
    for statement in module.body:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
            if isinstance(target, ast.Name) and _is_switch(statement.value):
                meanings[target.id] = statement.value
        if len(meanings) > _NAMES_MAX:
            break
    meanings.pop("pytestmark", None)
    if meanings:
        _ReplaceAliases(meanings).visit(module)
    return module


def _imported(node: ast.Import | ast.ImportFrom) -> dict[str, ast.expr]:
    aliases: dict[str, ast.expr] = {}
    for alias in node.names:
        name = alias.asname or alias.name
        if isinstance(node, ast.ImportFrom):
            library = (node.module or "").split(".")[0].lstrip("_")
            if library in _LIBRARIES:
                aliases[name] = ast.Attribute(ast.Name(library, ast.Load()), alias.name, ast.Load())
        elif alias.name in _LIBRARIES and name != alias.name:
            aliases[name] = ast.Name(alias.name, ast.Load())
    return aliases


def _is_switch(value: ast.expr) -> bool:
    nodes = list(ast.walk(value))
    return len(nodes) <= _NODES_MAX and any(
        isinstance(node, ast.Attribute) and node.attr in SWITCHES for node in nodes
    )


class _ReplaceAliases(ast.NodeTransformer):
    def __init__(self, meanings: dict[str, ast.expr]) -> None:
        self._meanings = meanings

    def visit_Name(self, node: ast.Name) -> ast.expr:
        meaning = self._meanings.get(node.id)
        if meaning is None or not isinstance(node.ctx, ast.Load):
            return node
        return copy.deepcopy(meaning)


_SKIPPING_CALLS: Final = frozenset(("skip", "xfail", "skipTest", "importorskip", "SkipTest"))
_SKIPPERS: Final = frozenset(("pytest", "self", "unittest", "SkipTest"))
_ENDINGS: Final = frozenset(("exit", "_exit", "quit", "abort", "SystemExit"))
_NONE: Final[frozenset[str]] = frozenset()
_DEF: Final = re.compile(r"^[ \t]*(?:async[ \t]+)?def[ \t]+(test\w*)", re.MULTILINE)


def python_tests(text: str) -> list[ScannedTest]:
    """Raises SyntaxError for code that this version of Python cannot parse."""
    try:
        module = with_plain_names(parse_python(text))
        tests = list(_tests(module.body, "", _switches_of(module.body)))
    except (ValueError, RecursionError) as error:
        raise SyntaxError(str(error)) from error
    # Of two definitions with the same name, the later one counts.
    return list({test.name: test for test in tests}.values())


def reasons_by_line(text: str) -> dict[int, frozenset[str]]:
    """Why each test does not run, or its failure does not count, by the line of its definition.

    Unlike `python_tests` this has also the tests of classes that no runner collects themselves,
    because other classes may inherit them. Raises SyntaxError like it.
    """
    try:
        module = with_plain_names(parse_python(text))
        tests = list(_tests(module.body, "", _switches_of(module.body), every_class=True))
    except (ValueError, RecursionError) as error:
        raise SyntaxError(str(error)) from error
    return {test.line: test.off for test in tests}


def python_tests_by_line(text: str) -> list[ScannedTest]:
    """Only the names, for files in the syntax of a newer Python."""
    return [ScannedTest(match[1], match[1]) for match in _DEF.finditer(text)]


def _tests(
    body: Sequence[ast.stmt], prefix: str, off: frozenset[str], *, every_class: bool = False
) -> Iterator[ScannedTest]:
    rebound = _rebound(body)
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name.startswith("test"):
                reasons = off | _switches_in(node) | rebound.get(node.name, _NONE)
                name = prefix + node.name
                yield ScannedTest(name, _fingerprint(node), reasons, node.lineno)
        elif isinstance(node, ast.ClassDef):
            if every_class or node.name.startswith("Test") or node.bases:
                reasons = off | _class_switches(node) | rebound.get(node.name, _NONE)
                inner_prefix = f"{prefix}{node.name}."
                yield from _tests(node.body, inner_prefix, reasons, every_class=every_class)
        else:
            inner, where = _conditional(node)
            yield from _tests(inner, prefix, off | {where}, every_class=every_class)


def _conditional(node: ast.stmt) -> tuple[list[ast.stmt], str]:
    """The statements inside a statement that may not run all of them."""
    if isinstance(node, ast.If):
        return [*node.body, *node.orelse], "inside an if"
    if isinstance(node, ast.Try):
        handlers = [statement for handler in node.handlers for statement in handler.body]
        return [*node.body, *handlers, *node.orelse], "inside a try"
    if isinstance(node, ast.With):
        return node.body, "inside a with"
    return [], ""


def _fingerprint(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    return "\n".join(ast.dump(statement) for statement in node.body)


def _class_switches(node: ast.ClassDef) -> frozenset[str]:
    names = {inner.name for inner in node.body if isinstance(inner, ast.FunctionDef)}
    # pytest skips a class with a constructor.
    made = frozenset(("__init__",)) if "__init__" in names else _NONE
    return _marks(node.decorator_list) | _switches_of(node.body) | made


def _switches_of(body: Iterable[ast.stmt]) -> frozenset[str]:
    """What disables a whole module or class."""
    reasons: set[str] = set()
    for node in body:
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            reasons |= _assigned_switches(node)
        elif isinstance(node, ast.Expr | ast.Raise | ast.If | ast.Try):
            reasons |= _skipping_calls(node)
            if not _is_main_guard(node):
                reasons |= _process_exits(node)
    return frozenset(reasons)


def _assigned_switches(node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> frozenset[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    names = {target.id for target in targets if isinstance(target, ast.Name)}
    if node.value is None:
        return _NONE
    if "__test__" in names and isinstance(node.value, ast.Constant) and not node.value.value:
        return frozenset(("__test__",))
    return _marks([node.value]) if "pytestmark" in names else _NONE


def _process_exits(statement: ast.stmt) -> frozenset[str]:
    """Calls that end the process during test collection."""
    return frozenset(
        name
        for node in ast.walk(statement)
        if isinstance(node, ast.Call | ast.Raise)
        and (name := _last_name(node.func if isinstance(node, ast.Call) else node.exc)) in _ENDINGS
    )


def _is_main_guard(statement: ast.stmt) -> bool:
    """Whether this is `if __name__ == "__main__":`, which does not run during collection."""
    return isinstance(statement, ast.If) and any(
        _last_name(node) == "__name__" for node in ast.walk(statement.test)
    )


def _switches_in(node: ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str]:
    calls = frozenset(reason for statement in node.body for reason in _skipping_calls(statement))
    marks = _marks(node.decorator_list)
    fixture = {"fixture"} & {_last_name(decorator) for decorator in node.decorator_list}
    return marks | calls | fixture


def _marks(decorators: Iterable[ast.expr]) -> frozenset[str]:
    """Also marks of single parameters, and empty lists of parameters."""
    reasons = set()
    for decorator in decorators:
        for node in ast.walk(decorator):
            name = _last_name(node)
            if name in SWITCHES:
                reasons.add(name)
            if isinstance(node, ast.Call) and _last_name(node.func) == "parametrize":
                values = node.args[1:2]
                if values and isinstance(values[0], ast.List | ast.Tuple) and not values[0].elts:
                    reasons.add("no parameters")
    return frozenset(reasons)


def _skipping_calls(statement: ast.stmt) -> frozenset[str]:
    reasons = set()
    nodes: list[ast.AST] = [statement]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue  # is checked on its own
        if isinstance(node, ast.Call) and _last_name(node.func) in _SKIPPING_CALLS:
            if _first_name(node.func) in _SKIPPERS:
                reasons.add(_last_name(node.func))
        elif isinstance(node, ast.Raise) and node.exc and _last_name(node.exc) == "SkipTest":
            reasons.add("SkipTest")
        nodes.extend(ast.iter_child_nodes(node))
    return frozenset(reasons)


def _rebound(body: Sequence[ast.stmt]) -> dict[str, frozenset[str]]:
    """Names that are deleted, get another value, or have their `__test__` set outside their
    definition."""
    functions = {node.name for node in body if isinstance(node, ast.FunctionDef)}
    names: set[str] = set()
    for node in body:
        if isinstance(node, ast.ClassDef):
            names |= {node.name} & functions
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names |= {name for inner in ast.walk(node) for name in _names_changed_by(inner)}
    return {name: frozenset(("another value",)) for name in names}


def _names_changed_by(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Name):
        return [] if isinstance(node.ctx, ast.Load) else [node.id]
    if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
        return [_first_name(node)] if node.attr in ("__test__", "pytestmark") else []
    if isinstance(node, ast.alias):
        return [node.asname or node.name]
    if isinstance(node, ast.Call | ast.Subscript):
        names = [node.slice] if isinstance(node, ast.Subscript) else node.args
        if _namespace_of(node) in ("globals", "vars", "locals", "setattr", "delattr"):
            return [text for name in names if (text := _text_of(name))]
    return []


def _namespace_of(node: ast.Call | ast.Subscript) -> str:
    """`globals` of `globals()["x"]` and of `globals().pop("x")`; `setattr` of its call."""
    inner = node.value if isinstance(node, ast.Subscript) else node.func
    if isinstance(inner, ast.Attribute):
        inner = inner.value
    return _first_name(inner.func if isinstance(inner, ast.Call) else inner)


def _text_of(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _last_name(node: ast.AST | None) -> str:
    if isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _first_name(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
