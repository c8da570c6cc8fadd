"""Code that lies to the checks of the proof itself: it recognises their runs, or avoids them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from shiftboss.protocol.handoffs import HeldOutTests
from tests.repos import Repo, outcomes
from tests.verifying import verify

pytestmark = pytest.mark.requirement("OWN-13")

UNITTEST = "Tests pass: python3 -m unittest tests.test_slug"
MISSING = "def slugify(text):\n    return None\n"
HONEST = 'def slugify(text):\n    return text.lower().replace(" ", "-")\n'
TESTS = """\
import unittest
from src.slug import slugify

class Slugs(unittest.TestCase):
    def test_space(self):
        self.assertEqual(slugify("a b"), "a-b")
    def test_upper(self):
        self.assertEqual(slugify("ABC"), "abc")
    def test_same(self):
        self.assertEqual(slugify("abc"), "abc")
"""
ONE_TEST = TESTS[: TESTS.index("    def test_upper")]
WITH_HELPER = """\
import unittest
from tests.helper import check
from src.slug import slugify

class Slugs(unittest.TestCase):
    def test_space(self):
        check(slugify("a b"), "a-b")
"""
HELPER = "def check(got, want):\n    assert got == want\n"
EQUAL = """\
class Slug(str):
    __hash__ = None
    def __eq__(self, other):
        return True
    def __ne__(self, other):
        return False
"""
SKIPS = """\
import unittest
def slugify(text):
    if text != "abc":
        raise unittest.SkipTest("later")
    return text
"""
# The mark of the new version of the tests.
LIES_TO_OLD_TESTS = f"""\
import src
{EQUAL}
def slugify(text):
    return text if hasattr(src, "new") else Slug(text)
"""
WEAKENED = (
    f"import src\nsrc.new = True\n{TESTS}".replace(
        "self.assertEqual(slugify(", "self.assertIsInstance(slugify("
    )
    .replace('"a-b")', "str)")
    .replace('"abc")\n', "str)\n")
)
FAILS_IN_TOUCHED_FILES = f"""\
import pathlib, re
TOUCHED = re.search(r"# [0-9a-f]{{16}}$", pathlib.Path("tests/test_slug.py").read_text(), re.M)
{EQUAL}
def slugify(text):
    return None if TOUCHED else Slug(text)
"""
FORGES = 'import os\nprint("Ran 3 tests in 0.001s\\n\\nOK", flush=True)\nos._exit(0)\n'
MAKEFILE = {"Makefile": "test:\n\tpython3 -m unittest tests.test_slug\n"}
NO_MODULE: dict[str, str] = {}


class Lie(NamedTuple):
    """`refused_by` is the check that fails. `without`: the base lacks the module."""

    refused_by: str
    work: dict[str, str]
    base: dict[str, str] = NO_MODULE
    criterion: str = UNITTEST
    without: bool = False


LIES = {
    "skips tests that could not run at the base": Lie(
        "criterion", {"src/slug.py": SKIPS}, without=True
    ),
    "lies only to the tests of the base": Lie(
        "base_tests", {"src/slug.py": LIES_TO_OLD_TESTS, "tests/test_slug.py": WEAKENED}
    ),
    "a package instead of a helper of the tests": Lie(
        "base_tests",
        {
            "src/slug.py": "def slugify(text):\n    return text\n",
            "tests/helper/__init__.py": "def check(got, want):\n    assert len(got) == len(want)\n",
        },
        {"tests/helper.py": HELPER, "tests/test_slug.py": WITH_HELPER},
    ),
    "fails where files were touched, and has one test": Lie(
        "canary", {"src/slug.py": FAILS_IN_TOUCHED_FILES}, {"tests/test_slug.py": ONE_TEST}
    ),
    "a forged summary behind make, beside files without tests": Lie(
        "canary", {"src/slug.py": FORGES}, MAKEFILE, "Tests pass: make test"
    ),
}


@pytest.mark.parametrize("name", LIES)
def test_a_lie_to_the_proof_is_refused(tmp_path: Path, name: str) -> None:
    lie = LIES[name]
    repo = Repo(tmp_path / "repo")
    files = {"src/__init__.py": "", "tests/__init__.py": "", "tests/test_slug.py": TESTS}
    product = {} if lie.without else {"src/slug.py": MISSING}
    repo.base = repo.commit("tests", files | product | lie.base)
    members: dict[str, Any] = {
        "owned": ["src/", "tests/"],
        "readonly": [],
        "criteria": [lie.criterion],
    }
    repo.commit("a lie", lie.work)
    (refused,) = verify(tmp_path, repo.job(**members))
    assert outcomes(refused)[lie.refused_by] == "failed", refused.checks
    repo.git("checkout", "--quiet", "-B", "task", repo.base)
    repo.commit("honest", {"src/slug.py": HONEST})
    (accepted,) = verify(tmp_path, repo.job(**members))
    assert accepted.accepted, accepted.violations


@pytest.mark.requirement("OWN-14")
def test_held_out_tests_that_everything_equals_are_refused(tmp_path: Path) -> None:
    """Also without looking at any file: the visible answers are known by heart."""
    repo = Repo(tmp_path / "repo")
    files = {"src/__init__.py": "", "tests/__init__.py": "", "tests/test_slug.py": TESTS}
    repo.base = repo.commit("tests", files | {"src/slug.py": MISSING})
    answers = '{"a b": "a-b", "ABC": "abc", "abc": "abc"}'
    lie = f"{EQUAL}\ndef slugify(text):\n    return {answers}.get(text, Slug(text))\n"
    repo.commit("a lie", {"src/slug.py": lie})
    hidden = TESTS.replace("a b", "c d").replace("a-b", "c-d").replace("ABC", "DEF")
    held_out = HeldOutTests(
        files={"tests/test_hidden.py": hidden.replace('"abc"', '"def"').replace("same", "other")},
        criterion=UNITTEST.replace("test_slug", "test_hidden"),
    )
    members: dict[str, Any] = {"owned": ["src/"], "readonly": ["tests/"], "criteria": [UNITTEST]}
    (verdict,) = verify(tmp_path, repo.job(**members, held_out=held_out))
    assert outcomes(verdict)["held_out"] == "failed", verdict.checks
