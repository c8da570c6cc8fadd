"""Which files a rule may give to a worker that asks for them, without asking anybody.

Only plain files that do not decide how the work is checked: whoever asks may want to write the
check instead of the work. All else is for a person to say. What a file holds is not looked at, so
this refuses by names, and rather too much than too little.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from typing import Final

from shiftboss.rules.claims.kept_tests import kind_of
from shiftboss.rules.paths.command_paths import Commands, module_of
from shiftboss.rules.paths.overlap import overlaps
from shiftboss.rules.paths.ownership import protected

_TEST_NAME: Final = re.compile(r"(?:.*[._-])?(?:tests?|specs?)[._-].*", re.IGNORECASE)
_TEST_CLASS: Final = re.compile(r".*[a-z0-9](?:Tests?|Spec|IT)\.\w+|.*\.snap")
_SCRIPT_NAME: Final = re.compile(r".*\.(?:sh|bash|zsh|fish|bats|mk|cmake|ps1|bat|cmd)", re.I)
# What lies there is read by tests, whatever it is.
_BELOW_TESTS: Final = """
    test tests spec specs e2e testdata fixtures __tests__ __mocks__ __fixtures__ __snapshots__
"""
_TEST_FOLDERS: Final = frozenset(_BELOW_TESTS.split())
# What others call: a Makefile or a package.json, which no argument shows.
_BELOW_SCRIPTS: Final = "bin ci hack script scripts tool tools"
_SCRIPT_FOLDERS: Final = frozenset(_BELOW_SCRIPTS.split())
# What the runners of tests import before they import a test.
_IMPORTED_FIRST: Final = """
    pytest _pytest py pluggy iniconfig packaging attr attrs exceptiongroup tomli pygments coverage
    xdist execnet hypothesis anyio nose mypy mypyc mypy_extensions typing_extensions setuptools
    pkg_resources pip wheel tox nox
"""
_RUNNERS: Final = frozenset(_IMPORTED_FIRST.split())
_STANDARD: Final = frozenset(name.casefold() for name in sys.stdlib_module_names)


def why_not_granted(path: str, readonly: Sequence[str], commands: Commands) -> str | None:
    """The reason, to be read after the path. None: it may be given away."""
    if not _is_one_file(path):
        return "may be more than one file"
    if overlaps([path], readonly, case_insensitive=True):
        return "is read-only by contract"
    if protected(path):
        return "decides how the work is checked"
    if _belongs_to_tests(path):
        return "belongs to the tests"
    if commands.name(path):
        return "is named by a command that checks the work"
    if _is_script(path):
        return "is a script, which checks may call"
    if commands.import_from_beside(path):
        return "lies beside a script that checks the work, and may be imported by it"
    shadowed = _shadowed(path, commands.words)
    return None if shadowed is None else f"may be imported in place of {shadowed}"


def _is_one_file(path: str) -> bool:
    """A name with an extension, without wildcards. What has none may be a directory."""
    name = path.rsplit("/", 1)[-1]
    return not any(letter in path for letter in "*?") and "." in name[1:]


def _belongs_to_tests(path: str) -> bool:
    *folders, name = path.split("/")
    if _TEST_NAME.fullmatch(name) or _TEST_CLASS.fullmatch(name):
        return True
    # Any file of Rust may have tests; those that are there may not be removed.
    return _in_one_of(folders, _TEST_FOLDERS) or kind_of(path) not in (None, "rust")


def _is_script(path: str) -> bool:
    *folders, name = path.split("/")
    return _in_one_of(folders, _SCRIPT_FOLDERS) or _SCRIPT_NAME.fullmatch(name) is not None


def _in_one_of(folders: Iterable[str], names: frozenset[str]) -> bool:
    return any(one.casefold() in names for one in folders)


def _shadowed(path: str, words: frozenset[str]) -> str | None:
    """What Python knows by the same name, in whichever folder: it may be one that is looked into
    first."""
    module = module_of(path)
    if not module:
        return None
    name = module[-1]
    known = name in _STANDARD or name in _RUNNERS or name.startswith("pytest_") or name in words
    return name if known else None
