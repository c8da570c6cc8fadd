"""Every promise has a test, and every acceptance test shows a promise.

Read from the source of the tests, so that it does not depend on which of them run.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
REQUIREMENTS = tomllib.loads((TESTS / "requirements.toml").read_text(encoding="utf-8"))


def ids_in(node: ast.AST) -> Iterator[str]:
    """The ids in every `requirement(...)` inside the node."""
    for call in ast.walk(node):
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr == "requirement"
        ):
            yield from (ast.literal_eval(argument) for argument in call.args)


def marked_tests(tree: ast.Module) -> dict[str, set[str]]:
    """The ids of every test function: its own, its class's and its module's."""
    marks = filter(_is_pytestmark, tree.body)
    return _tests_in(tree.body, frozenset().union(*map(ids_in, marks)))


def _tests_in(body: list[ast.stmt], outer: frozenset[str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for node in body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        ids = outer.union(*map(ids_in, node.decorator_list))
        if isinstance(node, ast.ClassDef):
            found |= _tests_in(node.body, ids)
        elif node.name.startswith("test_"):
            found[node.name] = set(ids)
    return found


def _is_pytestmark(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == "pytestmark" for target in node.targets
    )


@cache
def all_tests() -> dict[str, set[str]]:
    """`path::name` of every test with its ids."""
    return {
        f"{path.relative_to(TESTS)}::{name}": ids
        for path in sorted(TESTS.rglob("test_*.py"))
        for name, ids in marked_tests(ast.parse(path.read_text(encoding="utf-8"))).items()
    }


def test_every_promise_is_listed_with_its_source() -> None:
    for requirement in REQUIREMENTS.values():
        assert set(requirement) == {"source", "text"}
        assert all(requirement.values())


@pytest.mark.parametrize("requirement", REQUIREMENTS)
def test_every_promise_has_a_test(requirement: str) -> None:
    assert any(requirement in ids for ids in all_tests().values())


def test_every_acceptance_test_shows_a_promise() -> None:
    without = [
        name for name, ids in all_tests().items() if name.startswith("acceptance/") and not ids
    ]
    assert without == []


def test_no_test_names_an_unlisted_promise() -> None:
    unknown = {
        name: unknown for name, ids in all_tests().items() if (unknown := ids - set(REQUIREMENTS))
    }
    assert unknown == {}


def test_ids_are_found_on_functions_classes_and_modules() -> None:
    tree = ast.parse(
        """
pytestmark = [pytest.mark.anyio, pytest.mark.requirement("M-1")]

@pytest.mark.requirement("F-1", "F-2")
async def test_one(): ...

@pytest.mark.requirement("C-1")
class TestMore:
    def test_two(self): ...

def helper(): ...
"""
    )
    assert marked_tests(tree) == {"test_one": {"M-1", "F-1", "F-2"}, "test_two": {"M-1", "C-1"}}
