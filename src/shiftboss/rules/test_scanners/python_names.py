"""Names of a Python module that stand for a way to switch tests off, written out.

`import pytest as p`, `from pytest import skip as later` and `off = pytest.mark.skip` make names
that say nothing. With what they stand for in their place, whoever looks for `pytest.skip` finds it.
"""

from __future__ import annotations

import ast
import copy
from typing import Final

SWITCHES: Final = frozenset(
    ("skip", "skipif", "skipIf", "skipUnless", "xfail", "expectedFailure", "SkipTest")
)
_LIBRARIES: Final = frozenset(("pytest", "unittest"))
# What a module could waste time with.
_NAMES_MAX: Final = 50
_NODES_MAX: Final = 40


def with_plain_names(module: ast.Module) -> ast.Module:
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
        _WriteOut(meanings).visit(module)
    return module


def _imported(node: ast.Import | ast.ImportFrom) -> dict[str, ast.expr]:
    found: dict[str, ast.expr] = {}
    for one in node.names:
        name = one.asname or one.name
        if isinstance(node, ast.ImportFrom):
            library = (node.module or "").split(".")[0].lstrip("_")
            if library in _LIBRARIES:
                found[name] = ast.Attribute(ast.Name(library, ast.Load()), one.name, ast.Load())
        elif one.name in _LIBRARIES and name != one.name:
            found[name] = ast.Name(one.name, ast.Load())
    return found


def _is_switch(value: ast.expr) -> bool:
    nodes = list(ast.walk(value))
    return len(nodes) <= _NODES_MAX and any(
        isinstance(node, ast.Attribute) and node.attr in SWITCHES for node in nodes
    )


class _WriteOut(ast.NodeTransformer):
    def __init__(self, meanings: dict[str, ast.expr]) -> None:
        self._meanings = meanings

    def visit_Name(self, node: ast.Name) -> ast.expr:
        meaning = self._meanings.get(node.id)
        if meaning is None or not isinstance(node.ctx, ast.Load):
            return node
        return copy.deepcopy(meaning)
