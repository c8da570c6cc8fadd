"""Which files of a repository the commands of a contract name: as arguments, or as modules.

Whoever may write one of them can make the command say what they like. What a command reads without
naming it is not seen here.
"""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from shiftboss.protocol.handoffs import Contract, VerificationPolicy
from shiftboss.rules.claims.criteria import parse_command, parse_criterion
from shiftboss.rules.paths.patterns import Scope, as_written, normalised

Module = tuple[str, ...]

# Between the parts of `--config=a.ini`, `tests/a.py::test_b`, `app:main`, and of code in one word.
_BETWEEN: Final = re.compile(r"[\s=:,;|&<>()'\"`@]+")
_JOINED_OPTION: Final = re.compile(r"\A-[A-Za-z]")
_MODULE: Final = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_MODULE_OPTIONS: Final = frozenset(("-m", "-p"))
_PYTHON: Final = re.compile(r"(?:python|pypy)[0-9.]*")
_PYTHON_FILE: Final = re.compile(r"([^.]+)(?:\.[^.]+)*\.(?:pyi?|pyc|pyd|so)")


class Commands:
    """Those of the success criteria, and those that prepare the checkout."""

    def __init__(self, criteria: Sequence[str], setup: Sequence[str]) -> None:
        commands = [*_argvs(criteria, setup)]
        words = {word for argv in commands for arg in argv for word in _words(arg)}
        named = {path for word in words if (path := _path(word)) is not None}
        self._top_is_named = "." in named
        self._named = Scope(named - {"."}, case_insensitive=True)
        self._modules = {one for argv in commands for one in _modules(argv)}
        self._script_folders = {
            posixpath.dirname(script).casefold() for argv in commands for script in _scripts(argv)
        }
        # Programs are words like any other: `pytest` is one, and so is its `-q`.
        self.words = frozenset(word.casefold() for word in words)

    def name(self, path: str) -> bool:
        """Whether the path is an argument, lies below one, or belongs to a module that is one."""
        return self._top_is_named or self._named.covers(path) or self._has_module(path)

    def import_from_beside(self, path: str) -> bool:
        """Whether the path is a module in the folder of a script: that is where a script looks
        first, for whatever it imports."""
        module = module_of(path)
        return module is not None and "/".join(module[:-1]) in self._script_folders

    def _has_module(self, path: str) -> bool:
        module = module_of(path)
        if module is None:
            return False
        is_package = posixpath.basename(path).casefold().startswith("__init__.")
        return any(
            _runs_through(module, one) or (is_package and _is_above(module, one))
            for one in self._modules
        )


def module_of(path: str) -> Module | None:
    """The folders and the name of a module of Python, without regard to case. A package is known by
    its `__init__`. None: it is no module."""
    *folders, name = path.casefold().split("/")
    found = _PYTHON_FILE.fullmatch(name)
    if found is None:
        return None
    own = [] if found[1] in ("__init__", "__main__") else [found[1]]
    return (*folders, *own)


def _argvs(criteria: Sequence[str], setup: Sequence[str]) -> Iterator[Sequence[str]]:
    for text in criteria:
        checkable = parse_criterion(text)
        if checkable is not None:
            yield checkable.argv
    yield from map(parse_command, setup)


def _words(arg: str) -> list[str]:
    parts = [arg, *_BETWEEN.split(arg)]
    return [*parts, *(_JOINED_OPTION.sub("", one) for one in parts)]


def _path(word: str) -> str | None:
    """As a path or a glob, `.` for the top. None: it can be none of the repository."""
    if not word or word.startswith("-"):
        return None
    # All packages below a folder, as Go writes it. Below the top, that names none of them.
    path = posixpath.normpath(word.removesuffix("/..."))
    if path == ".":
        return None if word.endswith("...") else path
    try:
        return normalised(path)
    except ValueError:
        return None


def _modules(argv: Sequence[str]) -> Iterator[Module]:
    """What follows `-m`, and what can be nothing else: dotted names, and names within code."""
    for before, arg in zip(("", *argv), argv, strict=False):
        option, rest = arg[:2], arg[2:]
        given = before in _MODULE_OPTIONS or any(letter.isspace() for letter in arg)
        for word in [*_BETWEEN.split(arg), *([rest] if option in _MODULE_OPTIONS else [])]:
            if _MODULE.fullmatch(word) and (given or word == rest or "." in word):
                yield tuple(word.casefold().split("."))


def _scripts(argv: Sequence[str]) -> Iterator[str]:
    """`check.py` of `python3 -I check.py`."""
    runs_python = False
    for at, arg in enumerate(argv):
        if arg.endswith(".py") and (runs_python or at == 0):
            yield posixpath.normpath(arg)
            runs_python = False
        runs_python = runs_python or _PYTHON.fullmatch(posixpath.basename(arg)) is not None


def _runs_through(module: Module, named: Module) -> bool:
    """Whether the named one is it, or a package that it is in; the first folders may be no part of
    its name."""
    length = len(named)
    return any(module[at : at + length] == named for at in range(len(module) - length + 1))


def _is_above(package: Module, named: Module) -> bool:
    return any(package[-length:] == named[:length] for length in range(1, len(named)))


# The files that the commands of a contract name: they decide what a pass is worth.
#
# Only the files themselves, not what lies below a folder that is named: the work of others does,
# too.


_ASCII_MODULE: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


class NamedPaths:
    def __init__(self, contract: Contract, policy: VerificationPolicy) -> None:
        commands = list(_commands(contract, policy))
        self._paths = {path for argv in commands for path in _paths(argv)}
        scripts = [path for path in self._paths if path.endswith(".py")]
        self._script_folders = {posixpath.dirname(path) for path in scripts}

    def decide(self, path: str) -> bool:
        """Whether the path is named, or is what a named script gets in place of the standard
        library: Python looks beside the script first."""
        return path in self._paths or self._takes_the_place_of_a_module(path)

    def _takes_the_place_of_a_module(self, path: str) -> bool:
        stem, ending = posixpath.splitext(path)
        if ending != ".py":
            return False
        folder, name = posixpath.split(stem.removesuffix("/__init__"))
        return folder in self._script_folders and name in sys.stdlib_module_names


def _commands(contract: Contract, policy: VerificationPolicy) -> Iterator[Sequence[str]]:
    """Without those that need a shell: they fail when they are run."""
    for text in contract.success_criteria:
        try:
            criterion = parse_criterion(text)
        except ValueError:
            continue
        if criterion is not None:
            yield criterion.argv
    for text in policy.setup:
        try:
            yield parse_command(text)
        except ValueError:
            continue


def _paths(argv: Sequence[str]) -> Iterator[str]:
    """Words that are no files are among them; nobody has a file of such a name."""
    for before, word in zip(("", *argv), argv, strict=False):
        # `--config=x.toml`, and pytest's `tests/test_a.py::test_b`.
        for part in (word, word.partition("=")[2], word.partition("::")[0]):
            try:
                yield as_written(part).removesuffix("/")
            except ValueError:
                continue
        if before == "-m" and _ASCII_MODULE.fullmatch(word):
            yield from _module_files(word.split("."))


def _module_files(names: Sequence[str]) -> Iterator[str]:
    """What `python -m` runs, the packages around it included."""
    path = "/".join(names)
    yield from (f"{path}.py", f"{path}/__main__.py")
    for count in range(1, len(names) + 1):
        yield "/".join((*names[:count], "__init__.py"))
