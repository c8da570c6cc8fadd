"""Which files of a repository the commands of a contract refer to, as arguments or as modules.

A worker that may write one of these files can make the command report what it likes. A file that a
command reads without naming it is not found here. There are two answers: `CommandReferences` is
broad, for files that a worker asks for; `NamedFiles` is narrow, for changes that others made.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from shiftboss.rules.claims.criteria import parse_command, parse_criterion
from shiftboss.rules.paths.ownership import module_of
from shiftboss.rules.paths.patterns import Scope, normalize_git_path, normalize_path

Module = tuple[str, ...]

# Separates the parts of `--config=a.ini`, `tests/a.py::test_b`, `app:main`, and of inline code.
_SEPARATOR: Final = re.compile(r"[\s=:,;|&<>()'\"`@]+")
_JOINED_OPTION: Final = re.compile(r"\A-[A-Za-z]")
_MODULE: Final = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_MODULE_OPTIONS: Final = frozenset(("-m", "-p"))
_PYTHON: Final = re.compile(r"(?:python|pypy)[0-9.]*")


class CommandReferences:
    """Everything that the criteria and the setup commands could refer to, when in doubt too much.

    Folders count with all files below them, and a module counts wherever it could be imported from.
    """

    def __init__(self, criteria: Sequence[str], setup: Sequence[str]) -> None:
        commands = list(_argvs(criteria, setup))
        words = {word for argv in commands for arg in argv for word in _words(arg)}
        paths = {path for word in words if (path := _path(word)) is not None}
        self._names_top = "." in paths
        self._paths = Scope(paths - {"."}, case_insensitive=True)
        self._modules = {module for argv in commands for module in _modules(argv)}
        self._script_folders = {
            posixpath.dirname(script).casefold() for argv in commands for script in _scripts(argv)
        }
        # Includes programs and options: `pytest`, `-q`.
        self.words = frozenset(word.casefold() for word in words)

    def mention(self, path: str) -> bool:
        """Whether the path is an argument, is below one, or belongs to a module that is one."""
        return self._names_top or self._paths.covers(path) or self._has_module(path)

    def can_import(self, path: str) -> bool:
        """Whether the path is a module in the folder of a script. Python searches that folder
        first for everything that the script imports."""
        module = module_of(path)
        return module is not None and "/".join(module[:-1]) in self._script_folders

    def _has_module(self, path: str) -> bool:
        module = module_of(path)
        if module is None:
            return False
        is_package = posixpath.basename(path).casefold().startswith("__init__.")
        return any(
            _contains(module, named) or (is_package and _is_above(module, named))
            for named in self._modules
        )


class ImportFolders(NamedTuple):
    """Folders that Python searches for modules, in lower case: `always`, or only if they are not
    packages."""

    always: frozenset[str]
    folders: frozenset[str]


def import_folders(criteria: Sequence[str], setup: Sequence[str]) -> ImportFolders:
    """Python searches the folder of its script first, unittest the folder where it looks for
    tests, and both what PYTHONPATH names."""
    always: set[str] = set()
    folders: set[str] = set()
    for argv in _argvs(criteria, setup):
        always |= {posixpath.dirname(script) for script in _scripts(argv)}
        named = {path for arg in argv for word in _words(arg) if (path := _path(word)) is not None}
        is_searched = "discover" in argv or any(arg.startswith("PYTHONPATH=") for arg in argv)
        (always if is_searched else folders).update(named)
    return ImportFolders(
        frozenset(path.casefold() for path in always),
        frozenset(path.casefold() for path in folders),
    )


class NamedFiles:
    """The files that the commands name, and nothing below a named folder: others work there too."""

    def __init__(self, criteria: Sequence[str], setup: Sequence[str]) -> None:
        self._paths = {path for argv in _argvs(criteria, setup) for path in _named_paths(argv)}

    def includes(self, path: str) -> bool:
        return path in self._paths


def _argvs(criteria: Sequence[str], setup: Sequence[str]) -> Iterator[Sequence[str]]:
    """Skips commands that would need a shell, because they fail when they run."""
    for text in criteria:
        try:
            criterion = parse_criterion(text)
        except ValueError:
            continue
        if criterion is not None:
            yield criterion.argv
    for text in setup:
        try:
            yield parse_command(text)
        except ValueError:
            continue


def _words(arg: str) -> list[str]:
    parts = [arg, *_SEPARATOR.split(arg)]
    return [*parts, *(_JOINED_OPTION.sub("", part) for part in parts)]


def _path(word: str) -> str | None:
    """The word as a path or a glob, with `.` for the top. None if it is neither."""
    if not word or word.startswith("-"):
        return None
    # Go writes `dir/...` for all packages below a folder. `./...` names no package in particular.
    path = posixpath.normpath(word.removesuffix("/..."))
    if path == ".":
        return None if word.endswith("...") else path
    try:
        return normalize_path(path)
    except ValueError:
        return None


def _modules(argv: Sequence[str]) -> Iterator[Module]:
    """The argument of `-m`, and what can only be a module: dotted names, and names within code."""
    for before, arg in zip(("", *argv), argv, strict=False):
        option, rest = arg[:2], arg[2:]
        is_given = before in _MODULE_OPTIONS or any(letter.isspace() for letter in arg)
        for word in [*_SEPARATOR.split(arg), *([rest] if option in _MODULE_OPTIONS else [])]:
            if _MODULE.fullmatch(word) and (is_given or word == rest or "." in word):
                yield tuple(word.casefold().split("."))


def _scripts(argv: Sequence[str]) -> Iterator[str]:
    """`check.py` of `python3 -I check.py`."""
    runs_python = False
    for at, arg in enumerate(argv):
        if arg.endswith(".py") and (runs_python or at == 0):
            yield posixpath.normpath(arg)
            runs_python = False
        runs_python = runs_python or _PYTHON.fullmatch(posixpath.basename(arg)) is not None


def _contains(module: Module, named: Module) -> bool:
    """Whether `named` is the module or a package around it. Its first folders may not be part of
    its import name."""
    length = len(named)
    return any(module[at : at + length] == named for at in range(len(module) - length + 1))


def _is_above(package: Module, named: Module) -> bool:
    return any(package[-length:] == named[:length] for length in range(1, len(named)))


def _named_paths(argv: Sequence[str]) -> Iterator[str]:
    """Includes words that are not files. That does no harm, because no file has such a name."""
    for before, word in zip(("", *argv), argv, strict=False):
        # `--config=x.toml`, and pytest's `tests/test_a.py::test_b`.
        for part in (word, word.partition("=")[2], word.partition("::")[0]):
            try:
                yield normalize_git_path(part).removesuffix("/")
            except ValueError:
                continue
        if before == "-m" and _MODULE.fullmatch(word):
            yield from _module_files(word.split("."))


def _module_files(names: Sequence[str]) -> Iterator[str]:
    """What `python -m` runs, including the packages around it."""
    path = "/".join(names)
    yield from (f"{path}.py", f"{path}/__main__.py")
    for count in range(1, len(names) + 1):
        yield "/".join((*names[:count], "__init__.py"))
