"""Notes: every line that anybody has written stays, whoever writes at the same time."""

from __future__ import annotations

import asyncio

import pytest

from shiftboss.errors import TreeUnavailable, UnknownReceipt
from shiftboss.orchestrator.git.notes import NOTES_REF, add_to_notes, read_note
from shiftboss.orchestrator.git.repository import GitRepo
from tests.e2e.worktrees.worktree_fixtures import Project, run_in

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-18")]


async def lines_of(project: Project, commit: str) -> list[bytes]:
    return (await read_note(await GitRepo.at(project.repo.path), commit)).splitlines()


async def test_a_line_is_noted_once(project: Project) -> None:
    repo, base = await GitRepo.at(project.repo.path), project.repo.base
    other = project.repo.commit("other")
    assert await add_to_notes(repo, {base: ["one", "two"], other: ["one"]}, "why")
    assert not await add_to_notes(repo, {base: ["two"], other: ["one"]}, "why")
    assert await add_to_notes(repo, {base: ["three", "one"]}, "why")
    assert await lines_of(project, base) == [b"one", b"two", b"three"]
    assert project.repo.git("log", "--format=%cn: %s", NOTES_REF) == "Ada: why\nAda: why"
    assert project.repo.git("notes", "--ref=shiftboss", "show", other) == "one"


async def test_notes_of_other_people_are_kept(project: Project) -> None:
    repo, base = await GitRepo.at(project.repo.path), project.repo.base
    other = project.repo.commit("other")
    for commit, text in ((base, "Reviewed"), (other, "Not ours")):
        project.repo.git("notes", "--ref=shiftboss", "add", "-m", text, commit)
    project.repo.git("config", "core.notesRef", "refs/notes/mine")
    await add_to_notes(repo, {base: ["one"]}, "why")
    assert await lines_of(project, base) == [b"Reviewed", b"one"]
    assert await lines_of(project, other) == [b"Not ours"]
    assert project.refs("refs/notes/mine") == {}


async def test_concurrent_writers_lose_nothing(project: Project) -> None:
    repo, base = await GitRepo.at(project.repo.path), project.repo.base
    added = [f"line {number}" for number in range(6)]
    await asyncio.gather(*(add_to_notes(repo, {base: [line]}, line) for line in added))
    assert sorted(await lines_of(project, base)) == [line.encode() for line in added]


async def test_hundreds_of_notes_are_found_again(project: Project) -> None:
    """Git spreads many notes over folders."""
    repo, base = await GitRepo.at(project.repo.path), project.repo.base
    committer = "committer A <a@shiftboss.invalid> 1 +0000\n"
    stream = [
        f"commit refs/heads/many\nmark :{number}\n{committer}data 1\nx\n"
        for number in range(1, 301)
    ]
    stream.append(f"commit {NOTES_REF}\n{committer}data 1\nx\n")
    stream += [f"N inline :{number}\ndata 3\nold\n" for number in range(1, 301)]
    project.repo.git("fast-import", "--quiet", stdin="".join(stream).encode())
    other = project.repo.git("rev-parse", "many~7")
    await add_to_notes(repo, {base: ["one"], other: ["two"]}, "why")
    assert await lines_of(project, base) == [b"one"]
    assert await lines_of(project, other) == [b"old", b"two"]
    assert len(project.repo.git("notes", "--ref=shiftboss", "list").splitlines()) == 301


async def test_notes_of_two_clones_can_be_merged(project: Project) -> None:
    """With the commands of the how-to page."""
    base, clone = project.repo.base, project.folder / "clone"
    project.repo.git("clone", "--quiet", ".", str(clone))
    await add_to_notes(await GitRepo.at(project.repo.path), {base: ["one"]}, "why")
    await add_to_notes(await GitRepo.at(clone), {base: ["two"]}, "why")
    for command in (
        ("fetch", "--quiet", "origin", f"{NOTES_REF}:refs/notes/origin/shiftboss"),
        ("notes", "--ref=shiftboss", "merge", "-s", "cat_sort_uniq", "refs/notes/origin/shiftboss"),
        ("push", "--quiet", "origin", NOTES_REF),
    ):
        done = run_in(clone, "git", *command)
        assert done.returncode == 0, done.stderr
    assert await lines_of(project, base) == [b"one", b"two"]


async def test_hooks_do_not_run(project: Project) -> None:
    hook = project.repo.path / ".git" / "hooks" / "reference-transaction"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    repo = await GitRepo.at(project.repo.path)
    assert await add_to_notes(repo, {project.repo.base: ["one"]}, "why")


async def test_what_cannot_be_noted_leaves_nothing_behind(project: Project) -> None:
    repo = await GitRepo.at(project.repo.path)
    with pytest.raises(TreeUnavailable, match="is not in"):
        await add_to_notes(repo, {project.repo.base: ["one"], "0" * 40: ["two"]}, "why")
    assert project.refs("refs/notes") == {}
    assert not list((project.repo.path / ".git").glob("fast_import_crash*"))
    with pytest.raises(UnknownReceipt) as unknown:
        await read_note(repo, project.repo.base)
    assert "git fetch origin refs/notes/shiftboss:refs/notes/shiftboss" in (
        unknown.value.hint or ""
    )
