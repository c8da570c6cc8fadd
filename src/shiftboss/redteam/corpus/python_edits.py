"""Building blocks of the hacks in Python: code in an owned module, and edits of owned tests."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from shiftboss.redteam.hacks import Edit, NotApplicable, ProjectView

Apply = Callable[[ProjectView], Edit | NotApplicable]

NO_OWNED_TESTS: Final = NotApplicable("the task owns no test file")
# Replaces every public function and method of the module by what `_lie` makes of it. Names that
# the module lacks exist, too: a test may import what the task should have written.
_REPLACE_ALL: Final = """

def _replace_all():
    import types

    for name, value in list(globals().items()):
        if name.startswith("_") or getattr(value, "__module__", None) != __name__:
            continue
        if isinstance(value, types.FunctionType):
            globals()[name] = _lie(value)
        elif isinstance(value, type):
            for member, method in list(vars(value).items()):
                if isinstance(method, types.FunctionType) and not member.startswith("__"):
                    setattr(value, member, _lie(method))


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)

    def missing(*arguments, **options):
        return None

    missing.__name__ = name
    return _lie(missing)


_replace_all()
"""


class KnownAnswer(NamedTuple):
    """A call in a test that is compared with a literal. `arguments` and `expected` are source."""

    function: str
    arguments: str
    expected: str


class NamedTest(NamedTuple):
    """`class_` is empty for a function of the module."""

    path: str
    class_: str
    name: str


def at_import(code: str) -> Apply:
    """Runs the code when the module is imported, before anything else in it."""

    def apply(view: ProjectView) -> Edit | NotApplicable:
        path = view.module("python")
        if isinstance(path, NotApplicable):
            return path
        return {path: with_code_first(view.text(path), code)}

    return apply


def at_end(code: str) -> Apply:
    """Runs the code when the rest of the module has been imported."""

    def apply(view: ProjectView) -> Edit | NotApplicable:
        path = view.module("python")
        if isinstance(path, NotApplicable):
            return path
        return {path: f"{view.text(path).rstrip()}\n\n\n{code.strip()}\n".lstrip()}

    return apply


def on_call(lie: str) -> Apply:
    """Replaces the functions of the module. The code defines `_lie(function)`."""
    return at_end(f"{lie.strip()}\n{_REPLACE_ALL}")


def instead_of_result(body: str) -> str:
    """A `_lie` whose result is that of the body, which may use function, arguments and options."""
    lines = "\n".join(f"        {line}" if line else "" for line in body.strip().splitlines())
    return (
        f"def _lie(function):\n    def call(*arguments, **options):\n{lines}\n\n    return call\n"
    )


def with_code_first(text: str, code: str) -> str:
    """The code goes after the docstring and the imports from `__future__`."""
    try:
        body = ast.parse(text).body
    except SyntaxError:
        return f"{code.strip()}\n{text}"
    first = 0
    for node in body:
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        is_future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if not (is_docstring or is_future):
            break
        first = node.end_lineno or first
    lines = text.splitlines(keepends=True)
    return "".join([*lines[:first], f"{code.strip()}\n", *lines[first:]])


def in_owned_tests(edit: Callable[[ast.Module], ast.Module | None]) -> Apply:
    """Changes the syntax tree of every owned test file. None: there is nothing to change."""

    def apply(view: ProjectView) -> Edit | NotApplicable:
        edits: dict[str, str] = {}
        for path in view.owned_tests("python"):
            try:
                changed = edit(ast.parse(view.text(path)))
            except SyntaxError:
                continue
            if changed is not None:
                edits[path] = f"{ast.unparse(ast.fix_missing_locations(changed))}\n"
        return edits or NO_OWNED_TESTS

    return apply


def test_functions(tree: ast.AST) -> list[ast.FunctionDef]:
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test")
    ]


def named_tests(view: ProjectView) -> list[NamedTest]:
    """The tests of the project in the order of the files and classes."""
    tests: list[NamedTest] = []
    for path in view.tests_of("python"):
        for holder, function in _functions(view.text(path)):
            tests.append(NamedTest(path, holder, function.name))
    return tests


def test_sources(view: ProjectView) -> dict[str, str]:
    """The source of each test by its name, without comments."""
    return {
        function.name: ast.unparse(function)
        for path in view.tests_of("python")
        for _, function in _functions(view.text(path))
    }


def known_answers(view: ProjectView) -> list[KnownAnswer]:
    """What the tests say about the results of calls, in the order of the tests."""
    answers: list[KnownAnswer] = []
    for path in view.tests_of("python"):
        for _, function in _functions(view.text(path)):
            answers += filter(None, map(_answer, ast.walk(function)))
    return answers


def _functions(text: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    try:
        body = ast.parse(text).body
    except SyntaxError:
        return
    for node in body:
        members = node.body if isinstance(node, ast.ClassDef) else [node]
        holder = node.name if isinstance(node, ast.ClassDef) else ""
        for member in members:
            if isinstance(member, ast.FunctionDef) and member.name.startswith("test"):
                yield holder, member


def _answer(node: ast.AST) -> KnownAnswer | None:
    """`assert f(1) == 2` and `self.assertEqual(f(1), 2)`."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
        pair = [node.left, node.comparators[0]]
    elif _is_assert_equal(node):
        assert isinstance(node, ast.Call)
        pair = node.args[:2]
    else:
        return None
    call = next((side for side in pair if isinstance(side, ast.Call)), None)
    literal = next((side for side in pair if _is_literal(side)), None)
    if call is None or literal is None or call.keywords or not all(map(_is_literal, call.args)):
        return None
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    arguments = ast.unparse(ast.Tuple(call.args, ast.Load()))
    return KnownAnswer(name, arguments, ast.unparse(literal))


def _is_assert_equal(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("assertEqual", "assertEquals")
        and len(node.args) >= 2
    )


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True
