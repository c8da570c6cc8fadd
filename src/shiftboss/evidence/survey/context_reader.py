"""Reads for a new worker: the files of its task at the base, and the last changes around it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from shiftboss.errors import InvalidRequest
from shiftboss.evidence.mirror.repository import LoggedCommit, Repository
from shiftboss.protocol.contract_requests import ContextDocument
from shiftboss.rules.prompts.context import RECENT_CHANGES_MAX, ContextRequest, Material, chosen

# Fifty thousand tokens are far below; more would only be counted and left out.
FILE_BYTES_MAX: Final = 300_000
ALL_BYTES_MAX: Final = 2_000_000
HISTORY_COMMITS_MAX: Final = 20


class ContextReader:
    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    async def read(self, wish: ContextRequest) -> Material:
        names = await self._repository.files(wish.repo, wish.base)
        files = await asyncio.to_thread(chosen, names, wish.owned)
        wanted = [*files.code, *files.tests, *files.specs]
        plan = [wish.plan_ref] if wish.plan_ref in names else []
        contents = await self._repository.read(wish.repo, wish.base, [*plan, *wanted])
        texts = _texts(contents, wanted)
        return Material(
            plan=_plan(wish, contents),
            code_files=_documents(files.code, texts),
            test_files=_documents(files.tests, texts),
            spec_files=_documents(files.specs, texts),
            history=await self._history(wish, files.code),
            recent_changes=await self._recent_changes(wish),
            unread=[name for name in wanted if name in contents and name not in texts],
        )

    async def _history(self, wish: ContextRequest, files: Sequence[str]) -> list[ContextDocument]:
        """Of the owned files; the newest commit first."""
        if not files:
            return []
        commits = await self._repository.commits(wish.repo, wish.base, HISTORY_COMMITS_MAX, files)
        lines = [f"{one.sha[:12]} {one.subject}" for one in commits]
        return [ContextDocument(path="history of these files", text="\n".join(lines))]

    async def _recent_changes(self, wish: ContextRequest) -> list[str]:
        """The last ones of the repo and of all that it is built on."""
        found: list[tuple[LoggedCommit, str]] = []
        for repo in wish.chain:
            tip = await self._repository.commit_of(repo.path, f"refs/heads/{repo.branch}")
            if tip is not None:
                commits = await self._repository.commits(repo.path, tip, RECENT_CHANGES_MAX)
                found += [(one, repo.name) for one in commits]
        found.sort(key=lambda one: one[0].at_seconds, reverse=True)
        return [f"{name} {one.sha[:12]} {one.subject}" for one, name in found[:RECENT_CHANGES_MAX]]


def _plan(wish: ContextRequest, contents: Mapping[str, bytes]) -> str | None:
    if wish.plan_ref is None:
        return None
    text = _text(contents.get(wish.plan_ref))
    if text is None:
        raise InvalidRequest(
            f"plan_ref: there is no text file {wish.plan_ref} at {wish.base[:12]}",
            field="plan_ref",
            hint="commit the plan before the task is spawned, or leave plan_ref out",
        )
    return text


def _texts(contents: Mapping[str, bytes], wanted: Sequence[str]) -> dict[str, str]:
    """In the order of `wanted`, as long as there is room; what is no text is left out."""
    room = ALL_BYTES_MAX
    texts = {}
    for name in wanted:
        content = contents.get(name)
        text = _text(content)
        if content is not None and text is not None and len(content) <= min(FILE_BYTES_MAX, room):
            room -= len(content)
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
