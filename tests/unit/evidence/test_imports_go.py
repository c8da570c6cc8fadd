"""What a Go file imports."""

from __future__ import annotations

import pytest

from shiftboss.evidence.survey.imports.go import imported_by
from shiftboss.evidence.survey.imports.repo_view import RepoView

TEXTS = {
    "go.mod": "// the shop\nmodule example.com/shop // v1\n\ngo 1.22\n",
    "tools/go.mod": 'module "example.com/shop/tools"\n',
}
FILES = (
    "main.go",
    "cart/cart.go",
    "cart/money.go",
    "cart/cart_test.go",
    "cart/README.md",
    "cart/inner/a.go",
    "tools/gen/gen.go",
    "root.go",
)
BLOCK = """package p
import (
    "fmt"; _ "example.com/shop/cart" // for its effect
    x "example.com/shop/cart/inner"
)
func import_() { f("example.com/shop") }
"""
CART = {"cart/cart.go", "cart/money.go"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('package main\nimport "example.com/shop/cart"', CART),
        ('package main\nimport c "example.com/shop/cart"', CART),
        ("package main\nimport . `example.com/shop/cart`", CART),
        (BLOCK, CART | {"cart/inner/a.go"}),
        ('package main; import "fmt"; import "example.com/shop/cart"', CART),
        ('package main\nimport "example.com/shop/tools/gen"', {"tools/gen/gen.go"}),
        ('package x\nimport "example.com/shop"', {"root.go"}),
        ('package main\nimport "example.com/shopping/cart"\nimport "C"', set()),
        ('package main\n// import "example.com/shop/cart"\n/* import "example.com/shop" */', set()),
        ('package main\nfunc f() { s := `import "example.com/shop/cart"` }', set()),
        ('package main\nvar s = "x"\nimport "example.com/shop/cart"', set()),
        ("package main\nimport (", set()),
        ("", set()),
    ],
)
def test_imports_of_a_file(text: str, found: set[str]) -> None:
    assert imported_by("main.go", text, RepoView([*FILES, *TEXTS], TEXTS)) == found


def test_a_test_in_the_same_package_does_not_import_it() -> None:
    text = 'package cart_test\nimport "example.com/shop/cart"'
    repo = RepoView([*FILES, *TEXTS], TEXTS)
    assert imported_by("cart/cart_test.go", text, repo) == CART


def test_without_a_module_there_are_no_imports() -> None:
    repo = RepoView(FILES, {})
    assert imported_by("main.go", 'import "example.com/shop/cart"', repo) == set()
