"""The work of a task as a difference, with real commits: what is shown, where it comes from, and
what is left out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shiftboss.errors import DiffUnavailable, UnknownHandoff
from shiftboss.evidence.mirror import diffs
from shiftboss.protocol.claims.diffs import DiffAnswer, FileDiff, ShowDiffRequest
from shiftboss.protocol.runs import ReportLandedRequest
from tests.conformance.handoffs.handoff_fixtures import HandoffFixture, accepted, open_handoffs
from tests.repos import Repo
from tests.verifying import LocalEvidence

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-04")]


@pytest.fixture
async def work(sqlite_path: Path, tmp_path: Path) -> AsyncIterator[HandoffFixture]:
    """The branch `task` of a repository of its own."""
    repo = Repo(tmp_path / "repo")
    evidence = LocalEvidence(tmp_path / "evidence", str(repo.path))
    async with open_handoffs(str(sqlite_path), evidence, repo) as it:
        await it.given_out(
            "t", "w", "src/auth/", branch="task", files_readonly=["README.md"], target="main"
        )
        yield it


async def shown(work: HandoffFixture, claim_id: int | None = None, task: str = "t") -> DiffAnswer:
    request = ShowDiffRequest(swarm_id=work.swarm_id, bead_id=task, claim_id=claim_id)
    return await work.coordinator.history.show_diff(request)


def by_path(diff: DiffAnswer) -> dict[str, FileDiff]:
    return {file.path: file for file in diff.files}


async def test_work_so_far_is_that_of_the_branch_with_the_scope_of_each_file(
    work: HandoffFixture,
) -> None:
    with pytest.raises(DiffUnavailable) as nothing:
        await shown(work)
    assert nothing.value.facts["command"] == f"shiftboss diff t --swarm {work.swarm_id}"
    work.repo.git("mv", "src/auth/names.py", "src/auth/people.py")
    commit = work.repo.commit(
        "work",
        {
            "src/auth/login.py": "def login():\n    return 1\n",
            "README.md": "# Products\n",
            "other.txt": "new\n",
        },
    )
    diff = await shown(work)
    assert (diff.source, diff.base, diff.commit) == ("branch", work.repo.base, commit)
    files = by_path(diff)
    assert {path: (file.status, file.scope) for path, file in files.items()} == {
        "README.md": ("M", "readonly"),
        "other.txt": ("A", "outside"),
        "src/auth/login.py": ("M", "owned"),
        "src/auth/people.py": ("R", "owned"),
    }
    assert files["src/auth/people.py"].old_path == "src/auth/names.py"
    (hunk,) = files["src/auth/login.py"].hunks
    assert hunk.lines == [(" ", "def login():"), ("-", "    return None"), ("+", "    return 1")]


async def test_a_claim_and_what_landed(work: HandoffFixture) -> None:
    first = work.repo.commit("first", {"src/auth/login.py": "first\n"})
    await work.claim("t", name="w", commit=first)
    await work.refuse()
    second = work.repo.commit("second", {"src/auth/login.py": "second\n"})
    assert (await shown(work)).source == "branch"
    await work.claim("t", name="w", commit=second)
    diff = await shown(work)
    assert (diff.source, diff.commit, diff.claim_id) == ("claim", second, 2)
    refused = await shown(work, claim_id=1)
    assert refused.commit == first
    assert refused.files[0].hunks[0].lines[-1] == ("+", "first")
    job = await work.taken()
    await work.report(job, accepted(job))
    work.repo.git("update-ref", "refs/heads/main", second)
    await work.coordinator.runs.report_landed(
        ReportLandedRequest(
            swarm_id=work.swarm_id, bead_id="t", commit=second, target="main", landed_commit=second
        )
    )
    assert (await shown(work)).source == "landed"
    with pytest.raises(DiffUnavailable):
        await shown(work, claim_id=9)
    await work.add("plain")
    with pytest.raises(UnknownHandoff):
        await shown(work, task="plain")


async def test_a_commit_that_is_gone_and_a_repository_that_is_gone(work: HandoffFixture) -> None:
    commit = work.repo.commit("work", {"src/auth/login.py": "x\n"})
    await work.claim("t", name="w", commit="1234567")
    with pytest.raises(DiffUnavailable):
        await shown(work, claim_id=1)
    work.repo.path.rename(work.repo.path.with_name("elsewhere"))
    with pytest.raises(DiffUnavailable, match="cannot be shown"):
        await shown(work, claim_id=1)
    assert commit


async def test_large_binary_and_many_files_are_bounded(
    work: HandoffFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work.repo.path / "src/auth/binary").write_bytes(bytes(range(256)) * 10)
    work.repo.commit(
        "work",
        {
            "src/auth/long.txt": "line\n" * 4000,
            "src/auth/wide.txt": "x" * (diffs.FILE_BYTES_MAX + 1),
            "src/auth/small.txt": "\x1b[31m<script>\u202e\n",
            "src/auth/a b;$(x).txt": "name\n",
        },
    )
    files = by_path(await shown(work))
    assert (files["src/auth/binary"].binary, files["src/auth/binary"].hunks) == (True, [])
    for name in ("long", "wide"):
        file = files[f"src/auth/{name}.txt"]
        assert (file.truncated, file.hunks) == (True, [])
    assert files["src/auth/long.txt"].added == 4000
    assert files["src/auth/small.txt"].hunks[0].lines == [("+", r"\x1b[31m<script>\u202e")]
    assert files["src/auth/a b;$(x).txt"].hunks[0].lines == [("+", "name")]
    monkeypatch.setattr(diffs, "FILES_MAX", 2)
    short = await shown(work)
    assert (len(short.files), short.files_changed, short.truncated) == (2, 5, True)
