"""Reading a repository that is named by its URL: in our own mirror of it, which is fetched first.

The questions are those of `Repository`. Of a repository on this machine, that one answers them.
"""

from __future__ import annotations

from collections.abc import Sequence

from shiftboss.errors import UnknownRepo
from shiftboss.evidence.mirror.mirror import BRANCHES, Mirror, Mirrors, source_of
from shiftboss.evidence.mirror.repository import (
    Head,
    LoggedCommit,
    Repository,
    RepositoryFacts,
)
from shiftboss.rules.contract.checkpoints import WorkSinceBase
from shiftboss.rules.paths.repo_urls import is_url


class MirroredRepository(Repository):
    """Raises EvidenceElsewhere if a URL cannot be fetched."""

    def __init__(self, mirrors: Mirrors) -> None:
        super().__init__()
        self._mirrors = mirrors
        self._copies = Repository(BRANCHES)

    async def facts(self, path: str) -> RepositoryFacts:
        if not is_url(path):
            return await super().facts(path)
        head = await self.head(path)
        has_long_names = await self.has_long_names(path)
        return RepositoryFacts(head, await self.identity(path), has_long_names)

    async def head(self, path: str) -> Head:
        if not is_url(path):
            return await super().head(path)
        mirror = await self._fetched(path)
        branch = await mirror.default_branch()
        copy = str(mirror.path)
        commit = await self._copies.commit_of(copy, BRANCHES + branch) if branch else None
        if commit is None:
            raise UnknownRepo(f"{path} has no commit", field="repo", hint="push a first commit")
        return Head(commit, branch, mirror.source)

    async def identity(self, path: str) -> str:
        if not is_url(path):
            return await super().identity(path)
        # Not through a mirror: readers can name any number of URLs.
        return await source_of(path)

    async def has_long_names(self, path: str) -> bool:
        if not is_url(path):
            return await super().has_long_names(path)
        return await self._copies.has_long_names(await self._copy(path))

    async def commit_of(self, path: str, rev: str) -> str | None:
        if not is_url(path):
            return await super().commit_of(path, rev)
        copy = await self._copy(path, fetch=True)
        branch = BRANCHES + rev.removeprefix("refs/heads/")
        commit = await self._copies.commit_of(copy, branch)
        return commit or await self._copies.commit_of(copy, rev)

    async def is_on_branch(self, path: str, commit: str, branch: str) -> bool:
        if not is_url(path):
            return await super().is_on_branch(path, commit, branch)
        return await self._copies.is_on_branch(await self._copy(path, fetch=True), commit, branch)

    async def is_squash_of(
        self, path: str, squash: str, commit: str, accepted: list[str], branch: str
    ) -> bool:
        if is_url(path):
            path = await self._copy(path, fetch=True)
            return await self._copies.is_squash_of(path, squash, commit, accepted, branch)
        return await super().is_squash_of(path, squash, commit, accepted, branch)

    async def work_since(self, path: str, base: str, rev: str) -> WorkSinceBase | None:
        if not is_url(path):
            return await super().work_since(path, base, rev)
        commit = await self.commit_of(path, rev)
        if commit is None:
            return None
        return await self._copies.work_since(await self._copy(path), base, commit)

    async def files(self, path: str, commit: str) -> list[str]:
        return await super().files(await self._copy(path), commit)

    async def read(self, path: str, commit: str, names: Sequence[str]) -> dict[str, bytes]:
        return await super().read(await self._copy(path), commit, names)

    async def commits(
        self, path: str, rev: str, limit: int, files: Sequence[str] = ()
    ) -> list[LoggedCommit]:
        return await super().commits(await self._copy(path), rev, limit, files)

    async def _copy(self, path: str, *, fetch: bool = False) -> str:
        """The folder in which git reads the repository."""
        if not is_url(path):
            return path
        mirror = await self._fetched(path) if fetch else await self._mirrors.of(path)
        return str(mirror.path)

    async def _fetched(self, url: str) -> Mirror:
        mirror = await self._mirrors.of(url)
        await mirror.refresh(maintain=False)
        return mirror
