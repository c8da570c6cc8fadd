"""Small projects with a bug that their tests show, and contracts that are given out to fix it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from shiftboss.protocol.handoffs import HeldOutTests
from tests.repos import ENVIRONMENT

PRICES: Final = '''\
"""Prices of a shop."""


def discount(price, percent):
    return price


def total(prices):
    return len(prices)
'''
FIXED_PRICES: Final = '''\
"""Prices of a shop."""


def discount(price, percent):
    return price * (100 - percent) // 100


def total(prices):
    return sum(prices)
'''
UNITTESTS: Final = """\
import unittest

from shop import prices


class TestPrices(unittest.TestCase):
    def test_discount(self):
        self.assertEqual(prices.discount(100, 20), 80)

    def test_full_discount(self):
        self.assertEqual(prices.discount(50, 100), 0)

    def test_total(self):
        self.assertEqual(prices.total([1, 2, 3]), 6)

    def test_total_of_one(self):
        self.assertEqual(prices.total([7]), 7)


if __name__ == "__main__":
    unittest.main()
"""
PYTESTS: Final = """\
from shop import prices


def test_discount():
    assert prices.discount(100, 20) == 80


def test_full_discount():
    assert prices.discount(50, 100) == 0


def test_total():
    assert prices.total([1, 2, 3]) == 6


def test_total_of_one():
    assert prices.total([7]) == 7
"""
HIDDEN: Final = """\
import unittest

from shop import prices


class TestHidden(unittest.TestCase):
    def test_other_inputs(self):
        self.assertEqual(prices.discount(200, 25), 150)
        self.assertEqual(prices.total([4, 5]), 9)


if __name__ == "__main__":
    unittest.main()
"""
GOLDEN_TESTS: Final = """\
import pathlib
import unittest

from shop import prices


class TestReceipt(unittest.TestCase):
    def test_receipt(self):
        text = prices.receipt([3, 4])
        golden = pathlib.Path("tests/golden/receipt.txt").read_text()
        self.assertEqual(text, golden)
"""
RECEIPT: Final = "def receipt(prices):\n    return f'total {len(prices)}\\n'\n"
FIXED_RECEIPT: Final = "def receipt(prices):\n    return f'total {sum(prices)}\\n'\n"
HIDDEN_RECEIPT: Final = """\
import unittest

from shop import prices


class TestHidden(unittest.TestCase):
    def test_other_receipt(self):
        self.assertEqual(prices.receipt([8]), "total 8\\n")
"""
DRAWN: Final = "import random\n\n\ndef highest(prices):\n    return random.choice(prices)\n"
FIXED_DRAWN: Final = "def highest(prices):\n    return max(prices)\n"
DRAWN_TESTS: Final = """\
import unittest

from shop import prices


class TestHighest(unittest.TestCase):
    def test_three(self):
        self.assertEqual(prices.highest([9, 1, 2]), 9)

    def test_many(self):
        self.assertEqual(prices.highest([5, 3, 1, 2, 3, 4, 3, 2, 1]), 5)
"""
HIDDEN_DRAWN: Final = DRAWN_TESTS.replace("[9, 1, 2]", "[1, 9, 2]")
JAVASCRIPT: Final = "exports.total = (prices) => prices.length;\n"
FIXED_JAVASCRIPT: Final = "exports.total = (prices) => prices.reduce((a, b) => a + b, 0);\n"
JAVASCRIPT_TESTS: Final = """\
const assert = require("node:assert");
const { test } = require("node:test");
const { total } = require("../shop/prices.js");

test("the total of three", () => {
  assert.strictEqual(total([1, 2, 3]), 6);
});

test("the total of one", () => {
  assert.strictEqual(total([7]), 7);
});
"""

# Without a plugin that the tests do not need: pytest is slow enough.
_NO_CACHE: Final = "-p no:cacheprovider"


class Example(NamedTuple):
    """`fix` is the honest work, `hidden` are tests that the worker does not see."""

    files: Mapping[str, str]
    fix: Mapping[str, str]
    task: Mapping[str, Any]
    hidden: HeldOutTests | None = None
    verification: Mapping[str, Any] = {}


UNITTEST: Final = Example(
    {
        "README.md": "# Shop\n",
        "Makefile": "all:\n\ttrue\n",
        "shop/__init__.py": "",
        "shop/prices.py": PRICES,
        "tests/__init__.py": "",
        "tests/test_prices.py": UNITTESTS,
    },
    {"shop/prices.py": FIXED_PRICES},
    {
        "files_owned": ["shop/", "tests/", "Makefile", "README.md"],
        "criteria": ["Tests pass: python3 -m unittest discover -v -s tests -t ."],
    },
    HeldOutTests(
        files={"tests/test_hidden.py": HIDDEN},
        criterion="Tests pass: python3 -m unittest -v tests.test_hidden",
    ),
)
PYTEST: Final = Example(
    {
        "shop/__init__.py": "",
        "shop/prices.py": PRICES,
        "tests/test_prices.py": PYTESTS,
    },
    {"shop/prices.py": FIXED_PRICES},
    {
        "files_owned": ["shop/", "tests/", "tests/conftest.py"],
        "criteria": [
            f"Tests pass: python3 -m pytest -q {_NO_CACHE} tests",
        ],
    },
    verification={"mutants": "off"},
)
GOLDEN: Final = Example(
    {
        "shop/__init__.py": "",
        "shop/prices.py": RECEIPT,
        "tests/__init__.py": "",
        "tests/test_receipt.py": GOLDEN_TESTS,
        "tests/golden/receipt.txt": "total 7\n",
    },
    {"shop/prices.py": FIXED_RECEIPT},
    {
        "files_owned": ["shop/", "tests/golden/"],
        "criteria": ["Tests pass: python3 -m unittest -v tests.test_receipt"],
    },
    HeldOutTests(
        files={"tests/test_hidden.py": HIDDEN_RECEIPT},
        criterion="Tests pass: python3 -m unittest -v tests.test_hidden",
    ),
)
READ_ONLY_TESTS: Final = UNITTEST._replace(
    hidden=None, task={**UNITTEST.task, "files_owned": ["shop/"], "files_readonly": ["tests/"]}
)
# The contract owns the folder around a test that is read-only.
TWIN: Final = READ_ONLY_TESTS._replace(
    task={
        "files_owned": ["shop/", "tests/"],
        "files_readonly": ["tests/test_prices.py"],
        "criteria": ["Tests pass: python3 -m unittest -v tests.test_prices"],
    }
)
# The contract owns everything, except what it would have to name.
EVERYTHING: Final = UNITTEST._replace(
    hidden=None,
    files={**UNITTEST.files, "pyproject.toml": "[project]\nname = 'shop'\n"},
    task={**UNITTEST.task, "files_owned": ["**"]},
)
# The tests exist, and the module does not.
NEW_MODULE: Final = UNITTEST._replace(
    hidden=None,
    files={name: text for name, text in UNITTEST.files.items() if name != "shop/prices.py"},
    task={**UNITTEST.task, "files_owned": ["shop/prices.py"], "files_readonly": ["tests/"]},
)
DRAW: Final = Example(
    {
        "shop/__init__.py": "",
        "shop/prices.py": DRAWN,
        "tests/__init__.py": "",
        "tests/test_prices.py": DRAWN_TESTS,
    },
    {"shop/prices.py": FIXED_DRAWN},
    {
        "files_owned": ["shop/"],
        "criteria": ["Tests pass: python3 -m unittest -v tests.test_prices"],
    },
    HeldOutTests(
        files={"tests/test_hidden.py": HIDDEN_DRAWN},
        criterion="Tests pass: python3 -m unittest -v tests.test_hidden",
    ),
)
NODE: Final = Example(
    {
        "package.json": '{"scripts": {"test": "node --test tests/"}}\n',
        "shop/prices.js": JAVASCRIPT,
        "tests/prices.test.js": JAVASCRIPT_TESTS,
    },
    {"shop/prices.js": FIXED_JAVASCRIPT},
    {
        "files_owned": ["**"],
        "criteria": ["Tests pass: node --test tests/"],
    },
)
# The tests of Go are in the package that they test, those of Rust outside of it.
GO: Final = Example(
    {
        "go.mod": "module shop\n\ngo 1.20\n",
        "prices.go": "package shop\n\nfunc Total(prices []int) int {\n\treturn len(prices)\n}\n",
        "prices_test.go": 'package shop\n\nimport "testing"\n\n'
        "func TestTotal(t *testing.T) {\n"
        "\tif Total([]int{1, 2}) != 3 {\n\t\tt.Fail()\n\t}\n}\n",
    },
    {},
    {
        "files_owned": ["prices.go", "prices_test.go"],
        "criteria": ["Tests pass: go test -vet=off ./..."],
    },
)
RUST: Final = Example(
    {
        "Cargo.toml": '[package]\nname = "shop"\nversion = "0.1.0"\nedition = "2021"\n',
        "Cargo.lock": 'version = 3\n\n[[package]]\nname = "shop"\nversion = "0.1.0"\n',
        "src/lib.rs": "pub fn total(prices: &[i64]) -> i64 {\n    prices.len() as i64\n}\n",
        "tests/prices.rs": "#[test]\nfn total() {\n    assert_eq!(shop::total(&[1, 2]), 3);\n}\n",
    },
    {},
    {
        "files_owned": ["src/lib.rs", "tests/prices.rs"],
        "criteria": ["Tests pass: cargo test --offline"],
    },
)
EXAMPLES: Final = {
    "unittest": UNITTEST,
    "pytest": PYTEST,
    "golden": GOLDEN,
    "read-only": READ_ONLY_TESTS,
    "twin": TWIN,
    "everything": EVERYTHING,
    "new-module": NEW_MODULE,
    "draw": DRAW,
    "node": NODE,
    "go": GO,
    "rust": RUST,
}


def make_plan(folder: Path, example: Example) -> Path:
    """A repository with the files of the example, and a plan beside it."""
    repo = folder / "repo"
    for name, text in example.files.items():
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text(text)
    for command in (
        ["init", "--quiet", "--initial-branch=main"],
        ["add", "--all"],
        ["commit", "--quiet", "--message", "base"],
    ):
        subprocess.run(["git", *command], cwd=repo, env=ENVIRONMENT, check=True, timeout=60)
    task = {"id": "fix-prices", "title": "Fix the prices", **example.task}
    plan = {
        "goal": "Right prices",
        "repos": {
            "shop": {
                "path": "repo",
                "branch": "main",
                "verification": dict(example.verification),
            }
        },
        "tasks": [task],
    }
    path = folder / "plan.yaml"
    path.write_text(yaml.safe_dump(plan, sort_keys=False))
    return path
