"""What a Python file imports, as files of the repo."""

from __future__ import annotations

import importlib.util

import pytest

from shiftboss.evidence.survey.imports.python import imported_by
from shiftboss.evidence.survey.imports.repo_view import RepoView

SRC = (
    "src/shop/__init__.py",
    "src/shop/cart.py",
    "src/shop/money.py",
    "src/shop/tax/__init__.py",
    "src/shop/tax/rates.py",
    "src/shop/json.py",
    "src/plugins/extra/hooks.py",
    "tests/test_cart.py",
    "tests/helpers.py",
    "setup_tools.py",
)


def imports(path: str, text: str, files: tuple[str, ...] = SRC) -> set[str]:
    return imported_by(path, text, RepoView(files, {}))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import shop.money", {"src/shop/money.py"}),
        ("import shop.money as m, shop.tax.rates", {"src/shop/money.py", "src/shop/tax/rates.py"}),
        ("import shop", {"src/shop/__init__.py"}),
        ("from shop import money", {"src/shop/__init__.py", "src/shop/money.py"}),
        ("from shop.money import Money", {"src/shop/money.py"}),
        ("from shop.tax import VAT", {"src/shop/tax/__init__.py"}),
        ("from .money import *", {"src/shop/money.py"}),
        ("from . import money, tax", {"src/shop/money.py", "src/shop/tax/__init__.py"}),
        ("from .tax.rates import VAT", {"src/shop/tax/rates.py"}),
        ("from .. import shop", {"src/shop/__init__.py"}),
        ("from ....... import shop", set()),
        ("import plugins.extra.hooks", {"src/plugins/extra/hooks.py"}),
        ("from plugins.extra import hooks", {"src/plugins/extra/hooks.py"}),
        ("import json, os, requests, tests_of_nobody", set()),
        ("from .json import loads", {"src/shop/json.py"}),
        ("import shop.cart", set()),
        ("try:\n  import shop.money\nexcept ImportError: pass", {"src/shop/money.py"}),
        ("def f():\n  from shop.tax import rates", {"src/shop/tax/rates.py"}),
        ("if TYPE_CHECKING:\n  from shop.money import M", {"src/shop/money.py"}),
        ("import importlib\nimportlib.import_module('shop.money')", {"src/shop/money.py"}),
        ("import_module('.money', package=__package__)", {"src/shop/money.py"}),
        ("__import__('shop.tax.rates')", {"src/shop/tax/rates.py"}),
        ("import_module(name); import_module()", set()),
        ("'''import shop.money'''  # import shop.tax", set()),
        ("import shop.money\ndef (", set()),
        ("import shop.money\0", set()),
        ("x = '\\d'\nimport shop.money", {"src/shop/money.py"}),
        ("x = " + "(" * 5000, set()),
    ],
)
def test_imports_of_a_module_in_a_package(text: str, found: set[str]) -> None:
    files = imports("src/shop/cart.py", text)
    assert files - {"src/shop/__init__.py", "src/shop/tax/__init__.py"} == (
        found - {"src/shop/__init__.py", "src/shop/tax/__init__.py"}
    )
    assert found <= files


def test_a_name_imported_from_a_package_may_be_one_of_its_modules() -> None:
    found = imports("tests/test_cart.py", "from shop.tax import rates, VAT")
    assert found == {"src/shop/tax/__init__.py", "src/shop/tax/rates.py"}


def test_a_script_can_import_its_neighbours_and_the_sources() -> None:
    found = imports("tests/test_cart.py", "import helpers, shop.cart, setup_tools")
    assert found == {"tests/helpers.py", "src/shop/cart.py", "setup_tools.py"}


def test_the_standard_library_wins_except_over_neighbours_of_the_script() -> None:
    files = ("scripts/run.py", "scripts/types.py", "types.py", "src/json.py")
    assert imports("scripts/run.py", "import types, json", files) == {"scripts/types.py"}


def test_a_package_wins_over_a_module_and_both_over_a_namespace_package() -> None:
    files = ("a/x.py", "a/lib/__init__.py", "a/lib.py", "a/data/old.py", "data.py")
    assert imports("a/x.py", "import lib", files) == {"a/lib/__init__.py"}
    assert imports("a/x.py", "import data", files) == {"data.py"}


def test_a_stub_counts_alongside_its_module() -> None:
    files = ("a.py", "b.py", "b.pyi")
    assert imports("a.py", "import b", files) == {"b.py", "b.pyi"}


def test_a_module_of_another_project_is_found_if_it_is_unique() -> None:
    files = ("apps/web/main.py", "libs/core/source/core/__init__.py", "libs/core/source/core/a.py")
    found = {"libs/core/source/core/a.py"}
    assert imports("apps/web/main.py", "import core.a", files) == found
    twice = (*files, "old/core/__init__.py", "old/core/a.py")
    assert imports("apps/web/main.py", "import core.a", twice) == set()


@pytest.mark.parametrize("name", [".b", "..c.d", ".e.f"])
def test_relative_imports_resolve_like_in_the_interpreter(name: str) -> None:
    module = importlib.util.resolve_name(name, "top.sub").replace(".", "/") + ".py"
    package, _, leaf = name.rpartition(".")
    text = (
        f"from {package or '.'} import {leaf}" if leaf == name[1:] else f"import_module({name!r})"
    )
    files = ("top/__init__.py", "top/sub/__init__.py", "top/sub/a.py", module)
    found = imports("top/sub/a.py", text, files)
    assert module in found
