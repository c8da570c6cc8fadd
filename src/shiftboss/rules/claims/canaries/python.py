"""Sabotages the tests of a Python file, for pytest and unittest.

Only what surely runs when the test passes is sabotaged: no statement inside of an `if`, a `try` or
a `with`, none in a loop unless it runs over a table in the file, and none after a `return`. And
only what comes last, so that a test that prepares something for a later one has done so when it
fails.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from random import Random
from typing import Final, NamedTuple

from shiftboss.rules.claims.canaries.edits import Sabotage, unique_tests
from shiftboss.rules.claims.canaries.python_assertions import (
    Rewrite,
    assertion_rewrites,
    failures,
    last_statements,
)
from shiftboss.rules.claims.canaries.python_expected import ExpectedValues, ModuleNames
from shiftboss.rules.claims.canaries.python_source import Function, PythonSource
from shiftboss.rules.claims.source_text import TextEdit
from shiftboss.rules.claims.test_scanners.python import reasons_by_line
from shiftboss.rules.claims.test_scanners.source import TESTS_MAX

# These leave it to the test whether it fails. Others may swallow a failure, or rename the test.
_DECORATORS: Final = frozenset(
    (
        "activate",
        "classmethod",
        "example",
        "freeze_time",
        "given",
        "modify_settings",
        "override_settings",
        "seed",
        "settings",
        "staticmethod",
        "tag",
        "travel",
    )
)
# With these, other tests are skipped when this one fails.
_CHAINING_MARKS: Final = frozenset(("incremental", "dependency"))
_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPOUND: Final = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.If, ast.For, ast.AsyncFor),
    *(ast.While, ast.Try, ast.TryStar, ast.With, ast.AsyncWith, ast.Match),
)
_FAMILY_MAX: Final = 20


class _Test(NamedTuple):
    name: str
    function: Function
    in_test_case: bool  # of unittest, which does not await the methods of a plain `TestCase`


def python_sabotages(text: str, random: Random) -> list[Sabotage]:
    try:
        source = PythonSource(text)
        reasons = reasons_by_line(text.removeprefix("\ufeff"))
        tests = list(islice(_collected(source.module.body), TESTS_MAX))
        runnable = [test for test in tests if reasons.get(test.function.lineno) == frozenset()]
        names = ModuleNames(source.module)
        sabotages: list[Sabotage] = []
        rewrites: dict[Function, list[Rewrite]] = {}
        for test in runnable:
            # Two tests may be the same function, inherited by two classes.
            if test.function not in rewrites:
                rewrites[test.function] = list(_rewrites_of(source, names, test.function, random))
            sabotages += _sabotages_of(test, rewrites[test.function])
    except (SyntaxError, RecursionError):
        return []
    return unique_tests(sabotages, (test.name for test in tests))


def python_comments(text: str, nonce: str) -> list[TextEdit]:
    try:
        return PythonSource(text).comments(nonce)
    except SyntaxError:
        return []


def _collected(body: Sequence[ast.stmt]) -> Iterator[_Test]:
    """The tests of a module that a runner finds. A method that several classes inherit is a test of
    each of them."""
    aliases = _assigned(body)
    if _is_chained(body):
        return
    classes = {node.name: node for node in body if isinstance(node, ast.ClassDef)}
    names = Counter(node.name for node in body if isinstance(node, Function | ast.ClassDef))
    for node in body:
        if isinstance(node, Function):
            if _is_test(node, names, aliases):
                yield _Test(node.name, node, in_test_case=False)
        elif isinstance(node, ast.ClassDef) and names[node.name] == 1:
            yield from _of_class(node, classes, aliases)


def _of_class(
    owner: ast.ClassDef, classes: Mapping[str, ast.ClassDef], aliases: Mapping[str, ast.expr]
) -> Iterator[_Test]:
    family = _with_bases(owner, classes)
    if not _is_collected(family, classes):
        return
    if not all(_is_harmless_class(part, aliases) for part in family):
        return
    in_test_case = any(
        _dotted(base)[-1:] == ["TestCase"] for relative in family for base in relative.bases
    )
    defined: set[str] = set()
    for part in family:
        names = Counter(node.name for node in part.body if isinstance(node, Function))
        for node in part.body:
            if not isinstance(node, Function) or node.name in defined:
                continue
            if _is_test(node, names, aliases):
                yield _Test(f"{owner.name}::{node.name}", node, in_test_case)
        defined |= {name for node in part.body for name in _bound_names(node)}
    for node in owner.body:
        if isinstance(node, ast.ClassDef) and not owner.bases:
            for inner in _of_class(node, classes, aliases):
                yield inner._replace(name=f"{owner.name}::{inner.name}")


def _with_bases(owner: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> list[ast.ClassDef]:
    """The class and those of its bases that the file defines, in the order of look-up. Nothing if
    a base is inherited in two ways, because then the order is another, or if there are many."""
    family: list[ast.ClassDef] = []
    waiting = [owner]
    while waiting:
        relative = waiting.pop()
        if relative in family or len(family) == _FAMILY_MAX:
            return []
        family.append(relative)
        named = [classes.get(base.id) for base in relative.bases if isinstance(base, ast.Name)]
        # A class can only inherit from one above it: another of that name is not meant.
        known = [base for base in named if base is not None and base.lineno < relative.lineno]
        waiting += reversed(known)
    return family


def _is_collected(family: Sequence[ast.ClassDef], classes: Mapping[str, ast.ClassDef]) -> bool:
    """pytest collects classes by name, and both runners collect test cases; a base that the file
    does not define may be one."""
    if not family or family[0].keywords or _is_abstract(family[0]):
        return False
    bases = [base for relative in family for base in relative.bases]
    foreign = [base for base in bases if not (isinstance(base, ast.Name) and base.id in classes)]
    return family[0].name.startswith("Test") or bool(foreign)


def _is_abstract(owner: ast.ClassDef) -> bool:
    decorators = [
        decorator
        for node in owner.body
        if isinstance(node, Function)
        for decorator in node.decorator_list
    ]
    names = {_dotted(node)[-1] for node in [*owner.bases, *decorators] if _dotted(node)}
    return bool(names & {"ABC", "abstractmethod", "Protocol"})


def _is_test(node: Function, names: Mapping[str, int], aliases: Mapping[str, ast.expr]) -> bool:
    return (
        node.name.startswith("test")
        and names[node.name] == 1
        and all(_is_harmless(decorator, aliases) for decorator in node.decorator_list)
    )


def _is_harmless(decorator: ast.expr, aliases: Mapping[str, ast.expr]) -> bool:
    """Marks that disable tests are not judged here."""
    if len(_dotted(decorator)) == 1:
        decorator = aliases.get(_dotted(decorator)[0], decorator)
    if _has_chaining_mark(decorator):
        return False
    names = _dotted(decorator)
    return bool(names) and ("mark" in names[:-1] or "patch" in names or names[-1] in _DECORATORS)


def _is_harmless_class(node: ast.ClassDef, aliases: Mapping[str, ast.expr]) -> bool:
    decorators = all(_is_harmless(decorator, aliases) for decorator in node.decorator_list)
    return decorators and not _is_chained(node.body)


def _is_chained(body: Iterable[ast.stmt]) -> bool:
    """Whether all tests of a module or class have a mark that makes others depend on them."""
    return any(
        _has_chaining_mark(node.value)
        for node in body
        if isinstance(node, ast.Assign) and "pytestmark" in _bound_names(node)
    )


def _has_chaining_mark(node: ast.expr) -> bool:
    """Also in the marks of a single parameter."""
    return any(
        isinstance(inner, ast.Attribute)
        and inner.attr in _CHAINING_MARKS
        and _dotted(inner)[-2:-1] == ["mark"]
        for inner in ast.walk(node)
    )


def _sabotages_of(test: _Test, rewrites: Iterable[Rewrite]) -> list[Sabotage]:
    if test.in_test_case and isinstance(test.function, ast.AsyncFunctionDef):
        return []
    return [
        Sabotage(test.name, line, change, kind, *edit, cases)
        for kind, change, line, edit, cases in rewrites
    ]


def _rewrites_of(
    source: PythonSource, names: ModuleNames, function: Function, random: Random
) -> Iterator[Rewrite]:
    if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in _own_nodes(function.body)):
        return  # a generator does not run when it is called
    receiver = next((argument.arg for argument in function.args.args), None)
    reached = list(takewhile(lambda statement: not _may_leave(statement), function.body))
    surely = set(reached)
    values = ExpectedValues(source, names, function)
    for statement in last_statements(function.body, receiver):
        if statement in surely:
            yield from assertion_rewrites(source, statement, receiver, random)
            yield from values.rewrites(statement, random)
    if len(reached) == len(function.body):
        line = reached[-1].end_lineno or function.lineno
        for failure in _failures_after(source, reached[-1], random):
            yield Rewrite("raise", "raises at its end", line, failure)


def _failures_after(source: PythonSource, last: ast.stmt, random: Random) -> list[TextEdit]:
    """Without another line: on the line of a simple statement, or on the blank line after it."""
    if not isinstance(last, _COMPOUND):
        end = source.end(last)
        return [TextEdit(end, end, f"; {failure}") for failure in failures(random)]
    blank = source.blank_line_after(last)
    indentation = source.indentation(last)
    return (
        [TextEdit(*blank, indentation + failure) for failure in failures(random)] if blank else []
    )


def _may_leave(statement: ast.stmt) -> bool:
    """Whether a passing test may end here. Calls that skip the test are found by the scanner."""
    nodes = _own_nodes([statement])
    return isinstance(statement, ast.Raise) or any(isinstance(node, ast.Return) for node in nodes)


def _own_nodes(statements: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Without those of inner functions and classes."""
    nodes = list(statements)
    while nodes:
        node = nodes.pop()
        if not isinstance(node, _SCOPES):
            yield node
            nodes.extend(ast.iter_child_nodes(node))


def _assigned(body: Iterable[ast.stmt]) -> dict[str, ast.expr]:
    """Names of the module that stand for an expression, such as `slow = pytest.mark.slow`."""
    return {
        node.targets[0].id: node.value
        for node in body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }


def _bound_names(node: ast.stmt) -> list[str]:
    if isinstance(node, Function | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _dotted(node: ast.expr) -> list[str]:
    """`["pytest", "mark", "slow"]` of `pytest.mark.slow` and of a call of it."""
    names: list[str] = []
    while True:
        if isinstance(node, ast.Call):
            node = node.func
        elif isinstance(node, ast.Attribute):
            names.insert(0, node.attr)
            node = node.value
        else:
            return [node.id, *names] if isinstance(node, ast.Name) else []
