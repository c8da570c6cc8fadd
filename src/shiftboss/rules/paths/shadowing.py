"""Files that would be used instead of those that the work is checked with.

A worker that may write next to a check can leave it as it is and still replace it: by a package of
the same name, by a module that its imports find first, by a file that an unowned Makefile includes.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final

from shiftboss.rules.claims.kept_tests import is_test_file
from shiftboss.rules.paths.changes import SYMLINK, FileChange
from shiftboss.rules.paths.command_paths import import_folders
from shiftboss.rules.paths.declared_dependencies import NONE_USED, ThirdParty
from shiftboss.rules.paths.ownership import (
    RUNNER_MODULES,
    STANDARD_MODULES,
    Ownership,
    PathRefusal,
    by_name,
    is_protected,
    is_top_level,
    module_of,
    shadowed_module,
)

_SCRIPT: Final = re.compile(r"(?P<stem>.+)\.(?:[cm]?[jt]s|[jt]sx)")
_SCRIPT_ENDINGS: Final = (".js", ".cjs", ".mjs", ".jsx", ".ts", ".cts", ".mts", ".tsx")
_DECLARATIONS: Final = (".d.ts", ".d.cts", ".d.mts")

_MAKEFILE: Final = re.compile(r"(?:gnu)?makefile(?:\..+)?|.+\.(?:mk|mak|make)", re.IGNORECASE)
# A line that starts with a tab belongs to a recipe.
_INCLUDE: Final = re.compile(r"^ *(?:-include|sinclude|include)\s+([^#\n]+)", re.MULTILINE)
_WILDCARD: Final = re.compile(r"\$[({]wildcard\s+([^(){}]*)[)}]")
_VARIABLE: Final = re.compile(r"\$(?:\([^()]*\)|\{[^{}]*\}|\w)")


class Shadowing:
    """`names` are the files of the claimed commit; `includes` maps the patterns that Makefiles
    include to the Makefile."""

    def __init__(
        self,
        ownership: Ownership,
        names: Iterable[str],
        criteria: Sequence[str],
        setup: Sequence[str],
        includes: Mapping[str, str],
        third_party: ThirdParty = NONE_USED,
    ) -> None:
        self._ownership = ownership
        self._names = frozenset(names)
        self._commands = (criteria, setup)
        self._includes = includes
        self._third_party = third_party

    def refusal(self, file: FileChange) -> PathRefusal | None:
        """Why the file must not be there, worded to follow its path."""
        if file.status == "D":
            return None
        replaced = self.replaced(file)
        if replaced is not None and self._ownership.refusal(replaced) is not None:
            reason = f"would be imported instead of {replaced}, which the task may not change"
            return PathRefusal(reason, "rename it")
        if self._ownership.names_exactly(file.path):
            return None
        misled = self.misleads(file)
        return None if misled is None else by_name(misled)

    def replaced(self, file: FileChange) -> str | None:
        """The file of the commit that would no longer be imported."""
        for path in as_modules(file):
            stem = _imported_before(path)
            if stem and f"{stem}.py" in self._names:
                return f"{stem}.py"
        script = _SCRIPT.fullmatch(file.path)
        if script is None or file.path.endswith(_DECLARATIONS):
            return None
        twins = (f"{script['stem']}{ending}" for ending in _SCRIPT_ENDINGS)
        twins = (twin for twin in twins if twin != file.path and twin in self._names)
        # Which ending comes first depends on the tool. A twin that was there before stays allowed.
        return next(twins, None) if file.status in "AR" else None

    def misleads(self, file: FileChange) -> str | None:
        """Why a check would find this file instead of another one, or be configured by it."""
        makefile = self._including(file.path)
        if makefile is not None:
            return f"is included by {makefile}"
        for path in as_modules(file):
            if file.new_mode == SYMLINK and is_protected(path):
                return "configures tests or tools"
            name = shadowed_module(path) or self._shadowed_for_checks(file, path)
            if name is not None:
                return f"would be imported instead of the module {name}"
        return None

    def _including(self, path: str) -> str | None:
        return next(
            (
                makefile
                for pattern, makefile in self._includes.items()
                if fnmatch.fnmatchcase(path, pattern)
            ),
            None,
        )

    def _shadowed_for_checks(self, file: FileChange, path: str) -> str | None:
        """For tests and commands: the name of a module that they would no longer get."""
        module = module_of(path)
        if not module or file.status not in "AR":
            return None
        name = module[-1]
        is_used = name in self._third_party.modules
        if not is_used and name not in STANDARD_MODULES and name not in RUNNER_MODULES:
            return None
        folder = "/".join(module[:-1])
        searched = is_used and (is_top_level(module) or folder in self._third_party.folders)
        return name if searched or folder in self._search else None

    @cached_property
    def _search(self) -> frozenset[str]:
        """In lower case, like modules. Pytest searches the folder of a test file, unless it is a
        package."""
        packages = {
            posixpath.dirname(name).casefold()
            for name in self._names
            if posixpath.basename(name) == "__init__.py"
        }
        folders = {
            posixpath.dirname(name).casefold()
            for name in self._names
            if name.endswith(".py") and is_test_file(name)
        }
        named = import_folders(*self._commands)
        return frozenset((folders | named.folders) - packages | named.always)


def as_modules(file: FileChange) -> list[str]:
    """A link can be a folder, and so a package."""
    is_link = file.new_mode == SYMLINK
    return [file.path, f"{file.path}/__init__.py"] if is_link else [file.path]


def _imported_before(path: str) -> str:
    """The path without the ending that gives it precedence over a .py file, or "" if it has none:
    Python imports a package, or a compiled module, first."""
    folder, _, name = path.rpartition("/")
    stem = name.partition(".")[0]
    if not name.endswith((".so", ".pyd")) and stem != "__init__":
        return ""
    return folder if stem == "__init__" else posixpath.join(folder, stem)


def is_makefile(path: str) -> bool:
    return _MAKEFILE.fullmatch(posixpath.basename(path)) is not None


def included_patterns(makefile: str, text: str) -> set[str]:
    """The files that a Makefile includes, with `*` for what only make knows. Make searches the
    folder that it is started in: the top, or that of the Makefile."""
    patterns = set()
    for line in _INCLUDE.findall(text.replace("\\\n", " ")):
        for word in _VARIABLE.sub("*", _WILDCARD.sub(r"\1", line)).split():
            if not word.strip("*./"):
                continue  # anything could be meant
            for folder in ("", posixpath.dirname(makefile)):
                path = posixpath.normpath(posixpath.join(folder, word))
                patterns |= {path, path.removeprefix("*/")}
    return patterns
