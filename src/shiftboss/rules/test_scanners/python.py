"""The tests of a Python file: pytest's and unittest's."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from shiftboss.rules.test_scanners.found import FoundTest

_SWITCHES: Final = frozenset(
    ("skip", "skipif", "skipIf", "skipUnless", "xfail", "expectedFailure", "SkipTest")
)
_SKIPPING_CALLS: Final = frozenset(("skip", "xfail", "skipTest", "importorskip", "SkipTest"))
_SKIPPERS: Final = frozenset(("pytest", "self", "unittest", "SkipTest"))
_NONE: Final[frozenset[str]] = frozenset()
_DEF: Final = re.compile(r"^[ \t]*(?:async[ \t]+)?def[ \t]+(test\w*)", re.MULTILINE)


def python_tests(text: str) -> list[FoundTest]:
    """Raises SyntaxError for what this Python cannot read."""
    try:
        module = ast.parse(text)
    except (ValueError, RecursionError) as error:
        raise SyntaxError(str(error)) from error
    found = _tests(module.body, "", _switches_of(module.body))
    # Of two with one name Python knows the later one.
    return list({one.name: one for one in found}.values())


def python_tests_by_line(text: str) -> list[FoundTest]:
    """For files in the syntax of a newer Python: the names alone."""
    return [FoundTest(match[1], match[1]) for match in _DEF.finditer(text)]


def _tests(body: Sequence[ast.stmt], prefix: str, off: frozenset[str]) -> Iterator[FoundTest]:
    rebound = _rebound(body)
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name.startswith("test"):
                reasons = off | _switches_in(node) | rebound.get(node.name, _NONE)
                yield FoundTest(prefix + node.name, _fingerprint(node), reasons)
        elif isinstance(node, ast.ClassDef):
            if node.name.startswith("Test") or node.bases:
                reasons = off | _class_switches(node) | rebound.get(node.name, _NONE)
                yield from _tests(node.body, f"{prefix}{node.name}.", reasons)
        elif isinstance(node, ast.If):
            yield from _tests([*node.body, *node.orelse], prefix, off | {"inside of an if"})
        elif isinstance(node, ast.Try):
            handlers = [one for handler in node.handlers for one in handler.body]
            yield from _tests([*node.body, *handlers, *node.orelse], prefix, off)
        elif isinstance(node, ast.With):
            yield from _tests(node.body, prefix, off)


def _fingerprint(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    return "\n".join(ast.dump(one) for one in node.body)


def _class_switches(node: ast.ClassDef) -> frozenset[str]:
    names = {one.name for one in node.body if isinstance(one, ast.FunctionDef)}
    # pytest passes over a class that has to be given something.
    made = frozenset(("__init__",)) if "__init__" in names else _NONE
    return _marks(node.decorator_list) | _switches_of(node.body) | made


def _switches_of(body: Iterable[ast.stmt]) -> frozenset[str]:
    """What switches off all of a module or a class."""
    found: set[str] = set()
    for node in body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {one.id for one in targets if isinstance(one, ast.Name)}
            if "pytestmark" in names:
                found |= _marks([node.value])
            if (
                "__test__" in names
                and isinstance(node.value, ast.Constant)
                and not node.value.value
            ):
                found.add("__test__")
        elif isinstance(node, ast.Expr | ast.Raise | ast.If | ast.Try):
            found |= _skipping_calls(node)
    return frozenset(found)


def _switches_in(node: ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str]:
    calls = frozenset(reason for one in node.body for reason in _skipping_calls(one))
    return _marks(node.decorator_list) | calls


def _marks(decorators: Iterable[ast.expr]) -> frozenset[str]:
    """Also of single parameters, and of lists of them that are empty."""
    found = set()
    for decorator in decorators:
        for node in ast.walk(decorator):
            name = _last_name(node)
            if name in _SWITCHES:
                found.add(name)
            if isinstance(node, ast.Call) and _last_name(node.func) == "parametrize":
                values = node.args[1:2]
                if values and isinstance(values[0], ast.List | ast.Tuple) and not values[0].elts:
                    found.add("no parameters")
    return frozenset(found)


def _skipping_calls(statement: ast.stmt) -> frozenset[str]:
    found = set()
    nodes: list[ast.AST] = [statement]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue  # has switches of its own
        if isinstance(node, ast.Call) and _last_name(node.func) in _SKIPPING_CALLS:
            if _first_name(node.func) in _SKIPPERS:
                found.add(_last_name(node.func))
        elif isinstance(node, ast.Raise) and node.exc and _last_name(node.exc) == "SkipTest":
            found.add("SkipTest")
        nodes.extend(ast.iter_child_nodes(node))
    return frozenset(found)


def _rebound(body: Sequence[ast.stmt]) -> dict[str, frozenset[str]]:
    """Names that are deleted or given another value beside the definitions."""
    return {
        target.id: frozenset(("another value",))
        for node in body
        if isinstance(node, ast.Assign | ast.Delete)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _first_name(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
