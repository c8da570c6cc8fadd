"""Where the expected value of an assertion is written if it is not in the assertion itself.

`assert f(text) == want` compares with a name. What the name stands for is changed if it is a
literal that nothing else uses: otherwise both sides could change, or another test.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Final

from shiftboss.rules.claims.canaries.python_assertions import (
    Rewrite,
    changed_values,
    compared_names,
    expected_literal,
    is_vague,
    last_statements,
)
from shiftboss.rules.claims.canaries.python_source import Function, PythonSource

# With these, a test can use a name without writing it.
_INDIRECT: Final = frozenset(("eval", "exec", "globals", "locals", "request", "vars"))
# Fixtures that do not look at the parameters of a test.
_FIXTURES: Final = frozenset(
    ("self", "cls", "capsys", "caplog", "monkeypatch", "tmp_path", "tmpdir", "mocker")
)
_ROWS_MAX: Final = 50


class ModuleNames:
    """The names of a module, how often each is used, and the values of its constants."""

    def __init__(self, module: ast.Module) -> None:
        self.counts = _names_in(module)
        self.values = _assigned_once(module.body)


class ExpectedValues:
    """What the names in a test stand for."""

    def __init__(self, source: PythonSource, module: ModuleNames, function: Function) -> None:
        self.function = function
        self._source = source
        self._module = module
        self._counts = _names_in(function)
        self._stored = _names_in(function, stored=True)
        self._local = _assigned_once(function.body)
        self._receiver = next((argument.arg for argument in function.args.args), None)
        self._is_clear = not is_vague(function) and not _INDIRECT & self._counts.keys()

    def rewrites(self, statement: ast.stmt, random: Random) -> Iterator[Rewrite]:
        """Changed values for a statement of the test that surely runs, and that nothing with an
        effect follows."""
        if not self._is_clear:
            return
        if isinstance(statement, ast.For):
            yield from self._in_loop(statement, random)
            return
        for name in compared_names(statement, self._receiver):
            value = self.value_of(name)
            if value is not None and not is_vague(value):
                yield from changed_values(self._source, value, random)
            for cell in _parameters(self, name) if self._counts[name] == 1 else ():
                for rewrite in changed_values(self._source, cell, random):
                    yield rewrite._replace(cases="some")

    def value_of(self, name: str) -> ast.expr | None:
        """The value of a variable or constant that is used only once."""
        if name in _arguments(self.function):
            return None
        if name in self._local:
            return self._local[name] if self._counts[name] == 2 else None
        is_only_here = self._counts[name] == 1 and self._module.counts[name] == 2
        return self._module.values.get(name) if is_only_here else None

    def table(self, node: ast.expr) -> ast.expr | None:
        return self.value_of(node.id) if isinstance(node, ast.Name) else node

    def _in_loop(self, loop: ast.For, random: Random) -> Iterator[Rewrite]:
        """Assertions in a loop over a table. They fail in the last round, so that all others are
        over."""
        columns = _columns(self, loop)
        if not columns or loop.orelse or _may_leave(loop):
            return
        condition = self._only_last_round(columns)
        for statement in last_statements(loop.body, self._receiver):
            for name in compared_names(statement, self._receiver):
                if name in columns and self._counts[name] == 2:
                    yield from changed_values(self._source, columns[name][-1], random)
            expected = expected_literal(statement, self._receiver)
            if expected is not None and condition is not None:
                yield from changed_values(self._source, expected, random, condition)

    def _only_last_round(self, columns: Mapping[str, Sequence[ast.expr]]) -> str | None:
        """A condition on a variable of the loop that the test does not change."""
        for name, cells in columns.items():
            values = [cell.value for cell in cells if isinstance(cell, ast.Constant)]
            last = values[-1] if len(values) == len(cells) else None
            is_single = isinstance(last, str | int) and last not in values[:-1]
            if is_single and self._stored[name] == 1:
                return f"{name} == {last!a}"
        return None


def _columns(scope: ExpectedValues, loop: ast.For) -> dict[str, list[ast.expr]]:
    """The cells of the loop's table by the name of the variable; nothing if it is not a literal."""
    rows = _rows_of_loop(scope, loop.iter)
    if not rows or any(isinstance(row, ast.Starred) or is_vague(row) for row in rows):
        return {}
    if isinstance(loop.target, ast.Name):
        return {loop.target.id: rows}
    if not isinstance(loop.target, ast.Tuple | ast.List):
        return {}
    targets = loop.target.elts
    cells = [_cells(row) for row in rows]
    if any(len(row) != len(targets) for row in cells):
        return {}
    return {
        target.id: [row[number] for row in cells]
        for number, target in enumerate(targets)
        if isinstance(target, ast.Name)
    }


def _rows_of_loop(scope: ExpectedValues, node: ast.expr) -> list[ast.expr]:
    """Of a list, a tuple, and `{...}.items()`."""
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "items"
        and isinstance(table := scope.table(node.func.value), ast.Dict)
    ):
        pairs = zip(table.keys, table.values, strict=True)
        if any(not isinstance(key, ast.Constant) for key in table.keys):
            return []
        return [ast.Tuple([key, value], ast.Load()) for key, value in pairs if key is not None]
    values = scope.table(node)
    return values.elts if isinstance(values, ast.List | ast.Tuple) else []


def _cells(row: ast.expr) -> list[ast.expr]:
    cells = row.elts if isinstance(row, ast.List | ast.Tuple) else []
    return [] if any(isinstance(cell, ast.Starred) for cell in cells) else cells


def _may_leave(loop: ast.For) -> bool:
    leaving = (ast.Break, ast.Continue, ast.Raise, ast.Return)
    return any(isinstance(node, leaving) for node in ast.walk(loop))


def _parameters(scope: ExpectedValues, name: str) -> list[ast.expr]:
    """The values of a parameter in `@pytest.mark.parametrize`. None if the test has fixtures, which
    could use them, too."""
    calls = [
        decorator
        for decorator in scope.function.decorator_list
        if isinstance(decorator, ast.Call) and _is_parametrize(decorator)
    ]
    known = {parameter for call in calls for parameter in _parameter_names(call)} | _FIXTURES
    named = [call for call in calls if name in _parameter_names(call)]
    if len(named) != 1 or not _arguments(scope.function) <= known:
        return []
    table = scope.table(named[0].args[1])
    if not isinstance(table, ast.List | ast.Tuple):
        return []
    cells = (_parameter(row, named[0], name) for row in table.elts[:_ROWS_MAX])
    return [cell for cell in cells if cell is not None and not is_vague(cell)]


def _is_parametrize(decorator: ast.Call) -> bool:
    """Without options that give the values to a fixture."""
    return (
        isinstance(decorator.func, ast.Attribute)
        and decorator.func.attr == "parametrize"
        and len(decorator.args) == 2
        and all(keyword.arg == "ids" for keyword in decorator.keywords)
    )


def _parameter_names(decorator: ast.Call) -> list[str]:
    """Of `"text, want"` and of `("text", "want")`."""
    names = decorator.args[0]
    parts = names.elts if isinstance(names, ast.List | ast.Tuple) else [names]
    texts = [part.value for part in parts if isinstance(part, ast.Constant)]
    return [name.strip() for text in texts for name in str(text).split(",") if name.strip()]


def _parameter(row: ast.expr, table: ast.Call, name: str) -> ast.expr | None:
    split = _parameter_names(table)
    cells = _cells(row)
    if isinstance(row, ast.Call):
        # `pytest.param(1, 2, id="two")`
        is_param = isinstance(row.func, ast.Attribute) and row.func.attr == "param"
        plain = all(keyword.arg == "id" for keyword in row.keywords)
        starred = any(isinstance(cell, ast.Starred) for cell in row.args)
        cells = row.args if is_param and plain and not starred else []
    elif isinstance(table.args[0], ast.Constant) and len(split) == 1:
        cells = [row]
    return cells[split.index(name)] if len(cells) == len(split) else None


def _arguments(function: Function) -> set[str]:
    spec = function.args
    every = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs, spec.vararg, spec.kwarg]
    return {argument.arg for argument in every if argument is not None}


def _names_in(node: ast.AST, *, stored: bool = False) -> Counter[str]:
    return Counter(
        inner.id
        for inner in ast.walk(node)
        if isinstance(inner, ast.Name) and not (stored and isinstance(inner.ctx, ast.Load))
    )


def _assigned_once(body: Iterable[ast.stmt]) -> dict[str, ast.expr]:
    return {
        node.targets[0].id: node.value
        for node in body
        if isinstance(node, ast.Assign)
        and len(node.targets) == 1
        and isinstance(node.targets[0], ast.Name)
    }
