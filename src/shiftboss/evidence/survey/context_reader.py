"""Reads what a new worker needs: the files of its task at the base, and recent changes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from shiftboss.errors import InvalidRequest
from shiftboss.evidence.mirror.repository import LoggedCommit, Repository
from shiftboss.protocol.contract.contract_requests import ContextDocument
from shiftboss.rules.prompts.context import (
    RECENT_CHANGES_MAX,
    ContextMaterial,
    ContextRequest,
    choose_files,
)

# Far more than fifty thousand tokens; anything beyond would be left out anyway.
FILE_BYTES_MAX: Final = 300_000
ALL_BYTES_MAX: Final = 2_000_000
HISTORY_COMMITS_MAX: Final = 20


class ContextReader:
    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    async def read(self, request: ContextRequest) -> ContextMaterial:
        names = await self._repository.files(request.repo, request.base)
        files = await asyncio.to_thread(choose_files, names, request.owned)
        wanted = [*files.code, *files.tests, *files.specs]
        plan = [request.plan_ref] if request.plan_ref in names else []
        contents = await self._repository.read(request.repo, request.base, [*plan, *wanted])
        texts = _texts(contents, wanted)
        return ContextMaterial(
            plan=_plan(request, contents),
            code_files=_documents(files.code, texts),
            test_files=_documents(files.tests, texts),
            spec_files=_documents(files.specs, texts),
            history=await self._history(request, files.code),
            recent_changes=await self._recent_changes(request),
            unread=[name for name in wanted if name in contents and name not in texts],
        )

    async def _history(
        self, request: ContextRequest, files: Sequence[str]
    ) -> list[ContextDocument]:
        """The history of the owned files, the newest commit first."""
        if not files:
            return []
        commits = await self._repository.commits(
            request.repo, request.base, HISTORY_COMMITS_MAX, files
        )
        lines = [f"{commit.sha[:12]} {commit.subject}" for commit in commits]
        return [ContextDocument(path="history of these files", text="\n".join(lines))]

    async def _recent_changes(self, request: ContextRequest) -> list[str]:
        """The last commits of the repo and of all repos that it is built on."""
        changes: list[tuple[LoggedCommit, str]] = []
        for repo in request.chain:
            tip = await self._repository.commit_of(repo.path, f"refs/heads/{repo.branch}")
            if tip is not None:
                commits = await self._repository.commits(repo.path, tip, RECENT_CHANGES_MAX)
                changes += [(commit, repo.name) for commit in commits]
        changes.sort(key=lambda change: change[0].at_seconds, reverse=True)
        newest = changes[:RECENT_CHANGES_MAX]
        return [f"{name} {commit.sha[:12]} {commit.subject}" for commit, name in newest]


def _plan(request: ContextRequest, contents: Mapping[str, bytes]) -> str | None:
    if request.plan_ref is None:
        return None
    text = _text(contents.get(request.plan_ref))
    if text is None:
        raise InvalidRequest(
            f"plan_ref: there is no text file {request.plan_ref} at {request.base[:12]}",
            field="plan_ref",
            hint="commit the plan before spawning the task, or leave plan_ref out",
        )
    return text


def _texts(contents: Mapping[str, bytes], wanted: Sequence[str]) -> dict[str, str]:
    """The text files in the order of `wanted`, up to the size limit."""
    remaining = ALL_BYTES_MAX
    texts = {}
    for name in wanted:
        content = contents.get(name)
        text = _text(content)
        if (
            content is not None
            and text is not None
            and len(content) <= min(FILE_BYTES_MAX, remaining)
        ):
            remaining -= len(content)
            texts[name] = text
    return texts


def _text(content: bytes | None) -> str | None:
    if content is None or b"\0" in content:
        return None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def _documents(names: Sequence[str], texts: Mapping[str, str]) -> list[ContextDocument]:
    return [ContextDocument(path=name, text=texts[name]) for name in names if name in texts]
