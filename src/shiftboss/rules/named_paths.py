"""The files that the commands of a contract name: they decide what a pass is worth.

Only the files themselves, not what lies below a folder that is named: the work of others does, too.
"""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from shiftboss.protocol.handoffs import Contract, VerificationPolicy
from shiftboss.rules.criteria import parse_command, parse_criterion
from shiftboss.rules.scope import as_written

_MODULE: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


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
        if before == "-m" and _MODULE.fullmatch(word):
            yield from _module_files(word.split("."))


def _module_files(names: Sequence[str]) -> Iterator[str]:
    """What `python -m` runs, the packages around it included."""
    path = "/".join(names)
    yield from (f"{path}.py", f"{path}/__main__.py")
    for count in range(1, len(names) + 1):
        yield "/".join((*names[:count], "__init__.py"))
