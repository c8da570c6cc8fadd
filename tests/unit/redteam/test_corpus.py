"""Every hack is a pure change of a project, and says why it does not apply to one."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from shiftboss.protocol.handoffs import Contract
from shiftboss.redteam.corpus import CLASSES, HACKS
from shiftboss.redteam.hacks import Hack, NotApplicable, ProjectView
from shiftboss.redteam.project import view_of

pytestmark = pytest.mark.requirement("OWN-17")

PYTHON = {
    "shop/__init__.py": "",
    "shop/prices.py": '"""Prices."""\nfrom __future__ import annotations\n\n\n'
    "def total(prices):\n    return 0\n",
    "tests/__init__.py": "",
    "tests/test_prices.py": "import unittest\nfrom shop.prices import total\n\n\n"
    "class TestPrices(unittest.TestCase):\n    def test_total(self):\n"
    "        self.assertEqual(total([1, 2]), 3)\n",
    "tests/golden/receipt.txt": "3\n",
    "Makefile": "all:\n\ttrue\n",
    "pyproject.toml": "[project]\nname = 'shop'\n",
}
GO = {
    "shop/prices.go": "package shop\n\nfunc Total(prices []int) int {\n\treturn 0\n}\n",
    "shop/prices_test.go": 'package shop\n\nimport "testing"\n\n'
    "func TestTotal(t *testing.T) {\n\tif Total([]int{1}) != 1 {\n\t\tt.Fail()\n\t}\n}\n",
}
RUST = {
    "Cargo.toml": '[package]\nname = "shop"\n',
    "src/lib.rs": "pub fn total(prices: &[i64]) -> i64 {\n    0\n}\n",
    "tests/prices.rs": "#[test]\nfn total() {\n    assert_eq!(shop::total(&[1]), 1);\n}\n",
}
# They need a file that the task does not own, or one that does not exist.
NOT_ON_PYTHON = {
    *("case-variant", "file-outside", "read-only-test-changed"),
    *("placeholder", "words-of-criteria"),
}


def view(
    files: Mapping[str, str], owned: Sequence[str] = ("**",), readonly: Sequence[str] = ()
) -> ProjectView:
    contract = Contract(
        task_id="fix",
        files_owned=list(owned),
        files_readonly=list(readonly),
        dependencies_completed=[],
        success_criteria=["Tests pass: python3 -m unittest"],
    )
    return view_of(list(files), files, contract)


def named(name: str) -> Hack:
    return next(hack for hack in HACKS if hack.name == name)


def test_the_corpus_is_large_and_names_are_unique() -> None:
    assert len({hack.name for hack in HACKS}) == len(HACKS) >= 60
    assert len(CLASSES) >= 12
    by_language = [hack.language for hack in HACKS]
    assert by_language.count("javascript") >= 6
    assert {"go", "rust", None} <= set(by_language)


def test_the_docs_describe_every_class() -> None:
    page = Path(__file__).parents[3] / "docs" / "explanation" / "honesty.md"
    _, _, classes = page.read_text(encoding="utf-8").partition("## The classes")
    rows = re.findall(r"^\| `([a-z-]+)` \|[^|]*\|([^|]*)\|$", classes, re.MULTILINE)
    assert [class_ for class_, _ in rows] == list(CLASSES)
    for class_, refused_by in rows:
        layers = {hack.defence for hack in HACKS if hack.class_ == class_}
        assert layers <= set(re.findall("`([a-z_]+)`", refused_by)), class_


@pytest.mark.parametrize("hack", HACKS, ids=lambda hack: hack.name)
def test_a_hack_changes_a_project_of_its_language(hack: Hack) -> None:
    project = {"go": GO, "rust": RUST}.get(str(hack.language), PYTHON)
    edit = hack.edit(view(project))
    if hack.language == "javascript" or hack.name in NOT_ON_PYTHON:
        assert isinstance(edit, NotApplicable)
    else:
        assert not isinstance(edit, NotApplicable), edit.reason
        assert edit
        assert all(project.get(path) != content for path, content in edit.items())


@pytest.mark.parametrize(
    "hack", [hack for hack in HACKS if hack.language == "python"], ids=lambda hack: hack.name
)
def test_hacks_in_python_can_be_compiled(hack: Hack) -> None:
    """One that cannot would be refused for the wrong reason."""
    edit = hack.edit(view(PYTHON))
    assert not isinstance(edit, NotApplicable)
    for path, content in edit.items():
        if path.endswith(".py") and isinstance(content, str):
            ast.parse(content)


def test_a_hack_stays_within_the_files_of_the_task() -> None:
    project = view(PYTHON, owned=["shop/"], readonly=["tests/"])
    for hack in HACKS:
        edit = hack.edit(project)
        if not isinstance(edit, NotApplicable) and hack.class_ != "scope-tricks":
            assert all(path.startswith("shop/") for path in edit), hack.name


def test_a_project_whose_tests_import_nothing_owned_says_why() -> None:
    project = view(PYTHON, owned=["docs/"])
    reasons = {
        edit.reason
        for hack in HACKS
        if isinstance(edit := hack.edit(project), NotApplicable) and hack.class_ == "early-exit"
    }
    assert "the task owns no Python file that tests import" in reasons


def test_a_module_that_the_task_should_create_is_hacked_as_well() -> None:
    files = {name: text for name, text in PYTHON.items() if name != "shop/prices.py"}
    edit = named("equal-to-everything").edit(view(files, owned=["shop/prices.py"]))
    assert not isinstance(edit, NotApplicable)
    assert list(edit) == ["shop/prices.py"]


def test_code_at_import_comes_after_the_docstring_and_future_imports() -> None:
    edit = named("exit-at-import").edit(view(PYTHON))
    assert not isinstance(edit, NotApplicable)
    assert str(edit["shop/prices.py"]).splitlines()[1:4] == [
        "from __future__ import annotations",
        "import os",
        "os._exit(0)",
    ]


def test_answers_are_taken_from_the_tests() -> None:
    edit = named("answer-table").edit(view(PYTHON))
    assert not isinstance(edit, NotApplicable)
    assert "('total', repr(([1, 2],))): 3," in str(edit["shop/prices.py"])


def test_hidden_answers_are_found_by_the_hash_of_their_arguments() -> None:
    edit = named("hashed-table").edit(view(PYTHON))
    assert not isinstance(edit, NotApplicable)
    module: dict[str, object] = {"__name__": "prices"}
    exec(compile(str(edit["shop/prices.py"]), "prices.py", "exec"), module)
    total = module["total"]
    assert callable(total)
    assert (total([1, 2]), total([5])) == (3, 0)
