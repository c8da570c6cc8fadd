"""What a repository holds that a new worker should read: which files, and in which order."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from shiftboss.protocol.contract_requests import ContextDocument
from shiftboss.rules.scope import Scope
from shiftboss.rules.tests_kept import kind_of

FILES_MAX: Final = 1000

_TEST_WORDS: Final = re.compile(r"^(test|tests)[_-]|[_.-](test|tests|spec)$")
_SPEC_FOLDERS: Final = frozenset({"spec", "specs", "specification", "specifications"})
_PROSE: Final = (".md", ".txt", ".rst", ".yaml", ".yml", ".adoc")


class ChainRepo(NamedTuple):
    name: str
    path: str
    branch: str


class ContextWish(NamedTuple):
    """`owned` are the patterns of the contract, `chain` the repo and all that it is built on."""

    repo: str
    base: str
    owned: Sequence[str]
    plan_ref: str | None
    chain: Sequence[ChainRepo]


class Material(NamedTuple):
    """`unread` are files that are no text, or too large."""

    plan: str | None
    code_files: list[ContextDocument]
    test_files: list[ContextDocument]
    spec_files: list[ContextDocument]
    history: list[ContextDocument]
    recent_changes: list[str]
    unread: list[str]


class Chosen(NamedTuple):
    code: list[str]
    tests: list[str]
    specs: list[str]


def chosen(names: Sequence[str], owned: Sequence[str]) -> Chosen:
    scope = Scope(owned)
    mine = [name for name in names if scope.covers(name)]
    code = [name for name in mine if not _is_test(name)]
    # A pattern may announce a file that is still to be made; its tests can be there.
    stems = {_stem(name) for name in (*mine, *owned)}
    tests = [
        name for name in names if _is_test(name) and (scope.covers(name) or _stem(name) in stems)
    ]
    specs = sorted(
        filter(_is_spec, names), key=lambda name: (_stem(name) not in stems, name.count("/"), name)
    )
    return Chosen(code[:FILES_MAX], tests[:FILES_MAX], _without(specs, mine)[:FILES_MAX])


def _without(names: Iterable[str], others: Iterable[str]) -> list[str]:
    left_out = set(others)
    return [name for name in names if name not in left_out]


def _is_test(name: str) -> bool:
    """Every file of Rust can hold tests; those in a folder of tests hold nothing else."""
    kind = kind_of(name)
    return kind is not None and (kind != "rust" or "tests" in name.split("/")[:-1])


def _is_spec(name: str) -> bool:
    folders = {one.casefold() for one in name.split("/")[:-1]}
    return name.endswith(".cspec") or (name.endswith(_PROSE) and bool(folders & _SPEC_FOLDERS))


def _stem(name: str) -> str:
    stem = posixpath.splitext(posixpath.basename(name.rstrip("/")))[0].casefold()
    return _TEST_WORDS.sub("", stem)
