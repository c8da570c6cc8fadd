"""Which files a worker that asks for them gets automatically, without a decision by a person.

Only plain files that do not influence how the work is checked, because a worker could ask for the
check instead of doing the work. Everything else needs a person. The rule does not read the file; it
goes by the name, and refuses when in doubt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from shiftboss.rules.claims.kept_tests import language_of_tests
from shiftboss.rules.paths.command_paths import CommandReferences
from shiftboss.rules.paths.overlap import overlaps
from shiftboss.rules.paths.ownership import (
    RUNNER_MODULES,
    STANDARD_MODULES,
    is_protected,
    module_of,
)

_TEST_NAME: Final = re.compile(r"(?:.*[._-])?(?:tests?|specs?)[._-].*", re.IGNORECASE)
_TEST_CLASS: Final = re.compile(r".*[a-z0-9](?:Tests?|Spec|IT)\.\w+|.*\.snap")
_SCRIPT_NAME: Final = re.compile(r".*\.(?:sh|bash|zsh|fish|bats|mk|cmake|ps1|bat|cmd)", re.I)
# Settings that another file may include or extend: tools let people choose the name.
_SETTINGS_NAME: Final = re.compile(
    r"\..+"
    r"|.*\.(?:inc|in|m4|ini|cfg|conf|toml|properties|ya?ml|xml|opts|flags|neon|props|targets)"
    r"|(?:.*(?:config|lint|preset|settings).*|.*rc)\.(?:jsonc?|json5)"
    r"|(?:.*lint.*|.*\.config)\.[cm]?[jt]s",
    re.IGNORECASE,
)
# Tests may read any file in these folders.
_BELOW_TESTS: Final = """
    test tests spec specs e2e testdata fixtures __tests__ __mocks__ __fixtures__ __snapshots__
"""
_TEST_FOLDERS: Final = frozenset(_BELOW_TESTS.split())
# A Makefile or a package.json may call the files in these folders, which no argument shows.
_BELOW_SCRIPTS: Final = "bin ci hack script scripts tool tools"
_SCRIPT_FOLDERS: Final = frozenset(_BELOW_SCRIPTS.split())


def why_not_granted(
    path: str, readonly: Sequence[str], references: CommandReferences
) -> str | None:
    """Why the path needs a decision by a person, worded to follow the path. None if it does not."""
    if not _is_one_file(path):
        return "may cover more than one file"
    if overlaps([path], readonly, case_insensitive=True):
        return "is read-only by contract"
    if is_protected(path):
        return "influences how the work is checked"
    if _belongs_to_tests(path):
        return "belongs to the tests"
    if references.mention(path):
        return "is named by a command that checks the work"
    if _is_script(path):
        return "is a script, which checks may call"
    if _SETTINGS_NAME.fullmatch(path.rsplit("/", 1)[-1]):
        return "may be settings of a tool that checks the work"
    if references.can_import(path):
        return "is next to a script that checks the work, and may be imported by it"
    shadowed = _shadowed(path, references.words)
    return None if shadowed is None else f"may be imported instead of {shadowed}"


def _is_one_file(path: str) -> bool:
    """A name with an extension and no wildcards. Without an extension it may be a directory."""
    name = path.rsplit("/", 1)[-1]
    return not any(wildcard in path for wildcard in "*?") and "." in name[1:]


def _belongs_to_tests(path: str) -> bool:
    *folders, name = path.split("/")
    if _TEST_NAME.fullmatch(name) or _TEST_CLASS.fullmatch(name):
        return True
    # Any Rust file may contain tests. Another check keeps them from being removed.
    return _in_one_of(folders, _TEST_FOLDERS) or language_of_tests(path) not in (None, "rust")


def _is_script(path: str) -> bool:
    *folders, name = path.split("/")
    return _in_one_of(folders, _SCRIPT_FOLDERS) or _SCRIPT_NAME.fullmatch(name) is not None


def _in_one_of(folders: Iterable[str], names: frozenset[str]) -> bool:
    return any(folder.casefold() in names for folder in folders)


def _shadowed(path: str, words: frozenset[str]) -> str | None:
    """The module of Python or of a test runner that the file could shadow. The folder does not
    matter, because it may be first on the import path."""
    module = module_of(path)
    if not module:
        return None
    name = module[-1]
    is_known = name in STANDARD_MODULES or name in RUNNER_MODULES or name in words
    return name if is_known or name.startswith("pytest_") else None
