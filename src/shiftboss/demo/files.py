"""The files of the demo: the initial files of its repositories, and those that its agents write.

`units` depends on nothing, `shop` on `units`, `site` on `shop`. Tests that need the other
repositories run only in CI, which provides them; see `INTEGRATION_RUNNER`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

Files = Mapping[str, str]

# The tasks in which something goes wrong.
CRASHING_TASK: Final = "weight"
FULL_CONTEXT_TASK: Final = "postage"
OUT_OF_SCOPE_TASK: Final = "header"
FALSE_CLAIM_TASK: Final = "basket"

INTEGRATION_RUNNER: Final = '''\
"""Runs the tests that need the repositories this one depends on. CI sets their paths."""

import os
import sys
import unittest

sys.path += [os.environ[name] for name in os.environ if name.startswith("SHIFTBOSS_REPO_")]
suite = unittest.defaultTestLoader.discover("integration")
sys.exit(not unittest.TextTestRunner().run(suite).wasSuccessful())
'''


def _test(module: str, *assertions: str) -> str:
    """A test of one module."""
    lines = "".join(f"        self.assertEqual({assertion})\n" for assertion in assertions)
    return (
        f"import unittest\n\nimport {module}\n\n\nclass Test(unittest.TestCase):\n"
        f"    def test_{module}(self):\n{lines}"
    )


_COMMON: Final = {".gitignore": "__pycache__/\n"}
_INTEGRATION: Final = {"run_integration.py": INTEGRATION_RUNNER}

REPOS: Final[Mapping[str, Files]] = {
    "units": {
        **_COMMON,
        "length.py": 'def shown(millimetres):\n    return f"{millimetres / 10:.1f} cm"\n',
        "test_length.py": _test("length", "length.shown(125), '12.5 cm'"),
    },
    "shop": {
        **_COMMON,
        "prices.py": 'CENTS = {"cup": 1200, "tea": 450}\nGRAMS = {"cup": 300, "tea": 100}\n',
        "test_prices.py": _test("prices", "set(prices.CENTS), set(prices.GRAMS)"),
        **_INTEGRATION,
        "integration/test_length.py": _test("length", "length.shown(80), '8.0 cm'"),
    },
    "site": {
        **_COMMON,
        "page.py": 'def page(*parts):\n    return "\\n".join(parts)\n',
        "test_page.py": _test("page", "page.page('a', 'b'), 'a\\nb'"),
        **_INTEGRATION,
        "integration/test_prices.py": _test("prices", "prices.CENTS['tea'], 450"),
    },
}

TASK_FILES: Final[Mapping[str, Files]] = {
    "money": {
        "money.py": 'def shown(cents):\n    return f"{cents / 100:.2f} EUR"\n',
        "test_money.py": _test("money", "money.shown(1250), '12.50 EUR'"),
    },
    "weight": {
        "weight.py": 'def shown(grams):\n    return f"{grams / 1000:.1f} kg"\n',
        "test_weight.py": _test("weight", "weight.shown(1500), '1.5 kg'"),
    },
    "basket": {
        "basket.py": "import prices\n\n\ndef total(names):\n"
        "    return sum(prices.CENTS[name] for name in names)\n",
        "test_basket.py": _test("basket", "basket.total(['cup', 'tea']), 1650"),
    },
    "postage": {
        "postage.py": "import prices\n\n\ndef postage(names):\n"
        "    return 300 + sum(prices.GRAMS[name] for name in names) // 2\n",
        "test_postage.py": _test("postage", "postage.postage(['cup', 'tea']), 500"),
    },
    "bill": {
        "bill.py": "import basket\nimport money\nimport postage\n\n\ndef bill(names):\n"
        "    return money.shown(basket.total(names) + postage.postage(names))\n",
        "integration/test_bill.py": _test("bill", "bill.bill(['cup', 'tea']), '21.50 EUR'"),
    },
    "header": {
        "header.py": 'def header(title):\n    return f"<h1>{title}</h1>"\n',
        "test_header.py": _test("header", "header.header('Tea'), '<h1>Tea</h1>'"),
    },
    "footer": {
        "footer.py": 'def footer(year):\n    return f"<footer>{year}</footer>"\n',
        "test_footer.py": _test("footer", "footer.footer(1999), '<footer>1999</footer>'"),
    },
    "front": {
        "front.py": "import bill\nimport footer\nimport header\nimport page\n\n\n"
        "def front(names):\n"
        '    return page.page(header.header("Tea"), bill.bill(names), footer.footer(1999))\n',
        "integration/test_front.py": _test("front", "front.front(['tea']).count('EUR'), 1"),
    },
}

# The first version of the false claim: its test fails. And the file that is out of scope.
WRONG_FILES: Final = {"basket.py": TASK_FILES["basket"]["basket.py"].replace("sum(", "max(")}
FOREIGN_FILES: Final = {"page.py": "# Much better like this.\n" + REPOS["site"]["page.py"]}
