"""Repos that are built on others, with real git and real jobs: what a job sees of them, and which
push upstream broke it."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shiftboss.errors import CiUnavailable
from shiftboss.evidence.ci.local.act import act_program
from shiftboss.evidence.ci.local.breakage import find_breakage
from shiftboss.evidence.ci.local.runner import LocalCi
from shiftboss.protocol.ci import CiDemand, CiDependency, CiReport
from shiftboss.protocol.policy import CiPolicy, LocalJob
from shiftboss.rules.contract.breakage import BreakageFinding, BreakageQuestion, UpstreamPush
from tests.repos import Repo
from tests.waiting import PAUSE_SECONDS

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("CC-16")]

# Compares what the upstream repo provides with what this repo needs.
WORKS = """
import os, pathlib, sys
upstream = pathlib.Path(os.environ["SHIFTBOSS_REPO_ALPHA_VM"])
offered = (upstream / "api.txt").read_text().split()
wanted = pathlib.Path("wanted.txt").read_text().split()
(upstream / "left-behind").touch()
sys.exit(0 if set(wanted) <= set(offered) else "missing: " + repr(set(wanted) - set(offered)))
"""


class DependentRepos:
    """`down` is built on `up`. Both have `main` checked out."""

    def __init__(self, folder: Path) -> None:
        self.up = self._repo(folder / "up", {"api.txt": "add sub"})
        self.down = self._repo(folder / "down", {"wanted.txt": "add", "works.py": WORKS})
        self.ci = LocalCi(folder / "ci")
        self.pushes: list[UpstreamPush] = []
        self.base = self.down.head()

    @staticmethod
    def _repo(path: Path, files: dict[str, str]) -> Repo:
        repo = Repo(path)
        repo.git("checkout", "--quiet", "main")
        repo.commit("begin", files)
        return repo

    def demand(self, **policy: object) -> CiDemand:
        jobs = {"test": LocalJob(run=["python3 works.py"]), "lint": LocalJob(run=["true"])}
        return CiDemand(
            repo="adnet",
            repo_path=str(self.down.path),
            branch="main",
            policy=CiPolicy.model_validate({"jobs": jobs} | policy),
            dependencies={"alpha-vm": CiDependency(path=str(self.up.path), branch="main")},
        )

    def push(self, api: str) -> UpstreamPush:
        before = self.up.head()
        sha = self.up.commit("work", {"api.txt": api})
        at_ms = len(self.pushes)
        self.pushes.append(UpstreamPush("alpha-vm", sha, before, "s", f"up-{at_ms}", at_ms))
        return self.pushes[-1]

    async def find(self, sha: str | None = None) -> BreakageFinding:
        question = BreakageQuestion(
            self.demand(), self.base, sha or self.down.commit("more"), ["test"], self.pushes
        )
        return await find_breakage(self.ci, question)

    async def run(self, demand: CiDemand, sha: str) -> CiReport:
        await self.ci.start(demand, sha)
        deadline = time.monotonic() + 30
        while not (report := await self.ci.look(demand, sha)).complete:
            assert time.monotonic() < deadline, "the run did not end"
            await asyncio.sleep(PAUSE_SECONDS)
        return report


@pytest.fixture
async def repos(tmp_path: Path) -> AsyncIterator[DependentRepos]:
    made = DependentRepos(tmp_path)
    yield made
    await made.ci.close()


def states(report: CiReport) -> dict[str, str]:
    return {job.name: job.state for run in report.runs for job in run.jobs}


async def test_a_job_sees_the_tip_of_its_dependency_and_cannot_modify_it(
    repos: DependentRepos,
) -> None:
    demand = repos.demand()
    assert states(await repos.run(demand, repos.base))["test"] == "success"
    repos.push("sub")
    # Uncommitted changes there are not seen.
    repos.up.write({"api.txt": "add sub"})
    report = await repos.run(demand, repos.down.commit("more"))
    assert states(report) == {"test": "failure", "lint": "success"}
    tail = next(job.log_tail for run in report.runs for job in run.jobs if job.name == "test")
    assert tail is not None
    assert "missing: {'add'}" in tail
    assert not (repos.up.path / "left-behind").exists()


async def test_an_older_run_keeps_its_result_when_upstream_moves(repos: DependentRepos) -> None:
    demand = repos.demand()
    first = await repos.run(demand, repos.base)
    repos.push("sub")
    assert await repos.run(demand, repos.base) == first


async def test_a_missing_branch_of_a_dependency_is_named(repos: DependentRepos) -> None:
    there = CiDependency(path=str(repos.up.path), branch="release")
    demand = repos.demand().model_copy(update={"dependencies": {"alpha-vm": there}})
    with pytest.raises(CiUnavailable, match="no branch release in the dependency alpha-vm"):
        await repos.ci.start(demand, repos.base)


async def test_the_jobs_of_a_workflow_file_see_the_dependency_too(
    repos: DependentRepos, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    if act_program() is None:
        pytest.skip("act is not installed")
    workflow = (
        "on: push\njobs:\n  test:\n    runs-on: ubuntu-latest\n    steps:\n"
        "      - run: grep -q add $SHIFTBOSS_REPO_ALPHA_VM/api.txt\n"
    )
    sha = repos.down.commit("ci", {".forgejo/workflows/ci.yml": workflow})
    assert states(await repos.run(repos.demand(jobs={}), sha)) == {"test": "success"}


@pytest.mark.parametrize("breaking", [0, 1, 3])
async def test_the_breaking_push_is_found(repos: DependentRepos, breaking: int) -> None:
    apis = [f"add v{number}" if number < breaking else f"v{number}" for number in range(4)]
    for api in apis:
        repos.push(api)
    found = await repos.find()
    assert (found.outcome, found.push) == ("upstream", repos.pushes[breaking])
    assert found.is_tip is (breaking == 3)
    assert found.own_change_too is False
    assert found.probes <= 6


async def test_a_commit_that_fails_without_any_breaking_push_is_its_own_fault(
    repos: DependentRepos,
) -> None:
    repos.push("add sub mul")
    found = await repos.find(repos.down.commit("wants more", {"wanted.txt": "add div"}))
    assert (found.outcome, found.push) == ("own_change", None)


async def test_both_sides_are_blamed_when_the_commit_also_fails_without_the_push(
    repos: DependentRepos,
) -> None:
    broke = repos.push("sub")
    found = await repos.find(repos.down.commit("wants more", {"wanted.txt": "add div"}))
    assert (found.outcome, found.push, found.own_change_too) == ("upstream", broke, True)


async def test_a_failure_older_than_every_push_is_blamed_on_none_of_them(
    repos: DependentRepos,
) -> None:
    repos.base = repos.down.commit("never worked", {"wanted.txt": "div"})
    repos.push("add sub mul")
    assert (await repos.find()).outcome == "older"


async def test_an_unreported_change_is_not_blamed_on_the_last_reported_push(
    repos: DependentRepos,
) -> None:
    repos.push("add sub mul")
    repos.up.commit("by hand", {"api.txt": "sub"})
    assert (await repos.find()).outcome == "unreported"


async def test_a_push_that_is_not_on_the_branch_is_not_a_candidate(repos: DependentRepos) -> None:
    repos.up.git("checkout", "--quiet", "task")
    repos.push("nothing")
    assert (await repos.find()).outcome == "no_pushes"
