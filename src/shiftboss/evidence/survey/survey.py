"""The survey of a repo at the base commit of a task: the facts that a handoff is made from."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Callable, Iterable, Sequence

from shiftboss.errors import InvalidRequest
from shiftboss.evidence.mirror.repository import LONG_NAMES, LONG_NAMES_HINT, Repository
from shiftboss.evidence.port import Survey
from shiftboss.evidence.survey.imports import go, javascript, python, rust
from shiftboss.evidence.survey.imports.repo_view import RepoView, self_and_above
from shiftboss.evidence.survey.imports.typescript_config import extended_by, is_config
from shiftboss.evidence.survey.ownership import OwnedFiles, covered
from shiftboss.evidence.survey.project_setup.detect import is_manifest, success_criteria
from shiftboss.rules.paths.braces import normalize_patterns

# The imports of a task that owns more files would be too many to read.
SOURCES_MAX = 1000
# A larger file is generated code, and parsing it would delay other requests.
SOURCE_BYTES_MAX = 300_000
MANIFESTS_MAX = 1000
_EXTENDS_MAX = 5
READONLY_FILES_MAX = 200
READONLY_NAME_CHARACTERS_MAX = 1000

# A new language is registered here.
_LANGUAGES = (python, javascript, go, rust)
_IMPORTED_BY: dict[str, Callable[[str, str, RepoView], set[str]]] = {
    suffix: language.imported_by for language in _LANGUAGES for suffix in language.SUFFIXES
}


class Surveyor:
    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    async def survey(
        self, repo: str, base: str | None, files: Sequence[str], title: str, description: str
    ) -> Survey:
        """`files` are the patterns that the task will own, `base` is a revision; None means HEAD.

        Raises UnknownRepo, or InvalidRequest for an unusable pattern, base or criterion.
        """
        owned = _checked_patterns(files)
        head, identity, has_long_names = await self._repository.facts(repo)
        if has_long_names:
            raise InvalidRequest(f"{repo} {LONG_NAMES}", field="repo", hint=LONG_NAMES_HINT)
        commit = head.commit if base is None else await self._base(repo, base)
        names = await self._repository.files(repo, commit)
        existing = await asyncio.to_thread(covered, owned, names)
        texts = await self._texts(repo, commit, _wanted(names, existing, owned))
        await self._add_extended(repo, commit, names, texts)
        readonly, criteria = await asyncio.to_thread(
            lambda: _generated(
                OwnedFiles(owned, existing, RepoView(names, texts)), title, description
            )
        )
        return Survey(head.toplevel, identity, commit, head.branch, readonly, criteria)

    async def _base(self, repo: str, base: str) -> str:
        commit = await self._repository.commit_of(repo, base)
        if commit is None:
            raise InvalidRequest(
                f"There is no commit {base} in {repo}",
                field="base",
                hint="give a branch, a tag or a commit of the repo",
            )
        return commit

    async def _texts(self, repo: str, commit: str, names: Sequence[str]) -> dict[str, str]:
        contents = await self._repository.read(repo, commit, names)
        return {
            name: content.decode("utf-8-sig", errors="replace")
            for name, content in contents.items()
            if len(content) <= SOURCE_BYTES_MAX
        }

    async def _add_extended(
        self, repo: str, commit: str, names: Sequence[str], texts: dict[str, str]
    ) -> None:
        """Add the files that TypeScript configurations extend, which may have any name."""
        configs = {name for name in texts if is_config(name)}
        for _ in range(_EXTENDS_MAX):
            configs = await asyncio.to_thread(_extended, configs, RepoView(names, texts))
            if not configs:
                return
            missing = sorted(configs - texts.keys())
            texts.update(await self._texts(repo, commit, missing))


def _checked_patterns(files: Sequence[str]) -> list[str]:
    owned = []
    for pattern in files:
        try:
            owned += normalize_patterns(pattern)
        except ValueError as exc:
            raise InvalidRequest(
                f"{pattern!r} {exc}",
                field="files",
                hint="name files, directories or globs of the repo, such as src/auth/**",
            ) from exc
    return owned


def _wanted(names: Iterable[str], existing: Iterable[str], owned: Sequence[str]) -> list[str]:
    """The files to read: the sources that the task owns, and the manifests of projects."""
    sources = list(filter(is_source, existing))[:SOURCES_MAX]
    near = {above for name in (*sources, *owned) for above in self_and_above(_folder(name))}
    # First the manifests of the owned files, then those near the top, which concern most files.
    manifests = sorted(
        filter(is_manifest, names),
        key=lambda name: (_folder(name) not in near, name.count("/"), name),
    )
    return list(dict.fromkeys([*sources, *manifests[:MANIFESTS_MAX]]))


def _extended(configs: Iterable[str], view: RepoView) -> set[str]:
    return {name for config in configs for name in extended_by(config, view)}


def _folder(name: str) -> str:
    return posixpath.dirname(name.rstrip("/"))


def _generated(owned: OwnedFiles, title: str, description: str) -> tuple[list[str], list[str]]:
    try:
        criteria = success_criteria(title, description, owned)
    except ValueError as exc:
        raise InvalidRequest(
            f"The description states a criterion that cannot be checked: {exc}",
            field="description",
            hint="write `Tests pass: COMMAND` with a command that needs no shell",
        ) from exc
    return readonly_files(owned), criteria


def is_source(path: str) -> bool:
    """Whether the file is in a language whose imports can be read."""
    return posixpath.splitext(path)[1] in _IMPORTED_BY


def readonly_files(owned: OwnedFiles) -> list[str]:
    """The files that a task may read but not change: the imports of its own files, the nearest
    first if there are too many."""
    distances: dict[str, int] = {}
    for path in sorted(filter(is_source, owned.existing)):
        for name in _imported_by(path, owned.repo) - owned.existing:
            if _can_be_listed(name):
                distances[name] = min(_distance(path, name), distances.get(name, len(name)))
    nearest = sorted(distances, key=lambda name: (distances[name], name))
    return sorted(nearest[:READONLY_FILES_MAX])


def _imported_by(path: str, repo: RepoView) -> set[str]:
    text = repo.read(path)
    return set() if text is None else _IMPORTED_BY[posixpath.splitext(path)[1]](path, text, repo)


def _can_be_listed(name: str) -> bool:
    """A star would match other names in a contract, too."""
    return not set("*?") & set(name) and len(name) <= READONLY_NAME_CHARACTERS_MAX


def _distance(path: str, other: str) -> int:
    """The number of steps from one folder to the other."""
    here, there = posixpath.dirname(path), posixpath.dirname(other)
    if here == there:
        return 0
    left, right = here.split("/"), there.split("/")
    shared = len(posixpath.commonprefix([left, right]))
    return len(left) + len(right) - 2 * shared
