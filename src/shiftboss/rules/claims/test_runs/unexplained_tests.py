"""Tests that stand in a file and were not run, although nothing in the tests explains it.

The base tells which tests must run. But a test of the base may not have run there, because it needs
what the work adds. The code under test could skip such a test, or keep the runner from finding it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from shiftboss.rules.claims.test_runs.run_report import ReportedTest, RunReport
from shiftboss.rules.claims.test_scanners.python import parse_python

_SKIPS: Final = re.compile(r"skip|xfail|expected_?failure", re.IGNORECASE)
# Words of a command that choose some tests of a file.
_SELECTIONS: Final = re.compile(
    r"-k.*|-m.*|--deselect.*|--lf|--last-failed|--sw|--stepwise.*|--pyargs|.*::.*"
    r"|(?:\w+\.)*[A-Z]\w*(?:\.\w+)?"  # a class or a method, for unittest
)


def unexplained_tests(
    report: RunReport,
    texts: Mapping[str, str],
    others: Iterable[str],
    base: RunReport | None,
    words: Sequence[str],
) -> list[str]:
    """The labels of tests that were skipped from outside of the tests, or were not reported.

    `texts` are the Python files whose tests were reported, `others` the texts of files that help
    tests, `words` those of the command after the runner.
    """
    before = base.tests if base is not None else ()
    skipped_before = {test.function for test in before if test.outcome == "skipped"}
    skips = any(_SKIPS.search(text) for text in others)
    skipped = [] if skips else _skipped(report.tests, texts, skipped_before)
    if any(_SELECTIONS.fullmatch(word) for word in words):
        return skipped
    by_file: dict[str, set[str]] = {}
    for test in report.tests:
        if test.file is not None and test.file in texts:
            by_file.setdefault(test.file, set()).add(test.function[1])
    missing = [
        f"{file}::{name}"
        for file, names in sorted(by_file.items())
        for name in _plain_tests(texts[file], names)
        if name not in names
    ]
    return [*skipped, *missing]


def _skipped(
    tests: Sequence[ReportedTest],
    texts: Mapping[str, str],
    before: Collection[tuple[str | None, str]],
) -> list[str]:
    return [
        test.label
        for test in tests
        if test.outcome == "skipped"
        and test.function not in before
        and not _SKIPS.search(texts.get(test.file or "", "skip"))
    ]


def _plain_tests(text: str, reported: Collection[str]) -> Iterator[str]:
    """Tests without decorators that stand beside tests that were reported: the runner must have
    found them as well, unless the file itself removes or replaces them."""
    try:
        module = parse_python(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    replaced = _assigned_names(module)
    scopes = {name.rpartition("::")[0] for name in reported}
    if "" in scopes:
        yield from (name for name in _plain_functions(module.body) if name not in replaced)
    for node in module.body:
        if isinstance(node, ast.ClassDef) and node.name in scopes and not node.decorator_list:
            inner = replaced | _assigned_names(node)
            for name in _plain_functions(node.body):
                if name not in inner and node.name not in replaced:
                    yield f"{node.name}::{name}"


def _plain_functions(body: Sequence[ast.stmt]) -> Iterator[str]:
    functions = (node for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    for function in functions:
        if function.name.startswith("test_") and not function.decorator_list:
            yield function.name


def _assigned_names(tree: ast.AST) -> frozenset[str]:
    """Names that are assigned or deleted anywhere in the file."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            names.add(node.attr)
    return frozenset(names)
