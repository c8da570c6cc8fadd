"""Reads a project at the base of a task, so that hacks can be tried on it."""

from __future__ import annotations

import asyncio
import posixpath
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from shiftboss.evidence.mirror.repository import Repository
from shiftboss.evidence.survey.imports import go, javascript, python, rust
from shiftboss.evidence.survey.imports.repo_view import RepoView
from shiftboss.evidence.survey.project_setup.detect import is_manifest
from shiftboss.evidence.survey.survey import SOURCE_BYTES_MAX, is_source
from shiftboss.protocol.handoffs import Contract
from shiftboss.redteam.hacks import ProjectView, is_golden, language_of
from shiftboss.rules.claims.kept_tests import is_test_file
from shiftboss.rules.paths.patterns import Scope

FILES_MAX: Final = 2000
_BUILD_FILES: Final = frozenset(("Makefile", "GNUmakefile", "justfile", "noxfile.py", "tox.ini"))
_IMPORTED_BY: Final = {
    suffix: language.imported_by
    for language in (python, javascript, go, rust)
    for suffix in language.SUFFIXES
}


async def read_project(
    repository: Repository, repo: str, base: str, contract: Contract
) -> ProjectView:
    names = await repository.files(repo, base)
    wanted = await asyncio.to_thread(_wanted, names, contract)
    contents = await repository.read(repo, base, wanted)
    texts = {
        name: content.decode("utf-8-sig", errors="replace")
        for name, content in contents.items()
        if len(content) <= SOURCE_BYTES_MAX
    }
    return await asyncio.to_thread(view_of, names, texts, contract)


def view_of(names: Sequence[str], texts: Mapping[str, str], contract: Contract) -> ProjectView:
    tests = sorted(
        name
        for name, text in texts.items()
        if text.strip() and is_test_file(name) and language_of(name)
    )
    repo = RepoView(names, texts)
    counts: Counter[str] = Counter()
    for test in tests:
        imported = _imported(test, repo)
        counts.update(imported)
        # Tests often import a package whose `__init__` only passes on what its modules define.
        for name in imported:
            if posixpath.basename(name).startswith(("__init__.", "index.")):
                counts.update(_imported(name, repo))
    by_count = [name for name, _ in counts.most_common() if name not in tests]
    has_code = [name for name in by_count if texts.get(name, "").strip()]
    return ProjectView(contract, frozenset(names), texts, tests, has_code)


def _wanted(names: Sequence[str], contract: Contract) -> list[str]:
    """The owned files and the tests come first: a large repository has more files than are read."""
    scope = Scope(contract.files_owned)
    useful = [
        name
        for name in names
        if is_source(name)
        or is_manifest(name)
        or is_golden(name)
        or posixpath.basename(name) in _BUILD_FILES
    ]
    useful.sort(key=lambda name: (not scope.covers(name), not is_test_file(name), name))
    return useful[:FILES_MAX]


def _imported(name: str, repo: RepoView) -> set[str]:
    text = repo.read(name)
    imported_by = _IMPORTED_BY.get(posixpath.splitext(name)[1])
    return set() if text is None or imported_by is None else imported_by(name, text, repo)
