"""The local runner with real git and real commands."""

from __future__ import annotations

import asyncio
import shutil
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from shiftboss.errors import CiUnavailable
from shiftboss.evidence.ci.local.act import act_program
from shiftboss.evidence.ci.local.runner import LocalCi
from shiftboss.evidence.ci.local.runs import LocalRun, LocalRunRecord, LocalRunRecords
from shiftboss.evidence.ci.provider import CiProviders
from shiftboss.protocol.ci import CiDemand, CiJob, CiReport, CiRun
from shiftboss.protocol.policy import CiPolicy, LocalJob
from tests.repos import Repo
from tests.waiting import eventually, wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("CC-04")]

# Reports its start with a file, then waits until it may end.
HELD = """
import pathlib, sys, time
marks = pathlib.Path(sys.argv[1])
with (marks / "began").open("a") as file:
    file.write("x")
deadline = time.monotonic() + 60
while not (marks / "go").exists() and time.monotonic() < deadline:
    time.sleep(0.01)
"""
START = """
import asyncio, pathlib, sys
from shiftboss.evidence.ci.local.runner import LocalCi
from shiftboss.protocol.ci import CiDemand

async def main():
    ci = LocalCi(pathlib.Path(sys.argv[1]))
    await ci.start(CiDemand.model_validate_json(sys.argv[2]), sys.argv[3])
    await asyncio.sleep(60)

asyncio.run(main())
"""


class Runner:
    """A local runner, and a repository for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "ci"
        self.marks = folder / "marks"
        self.marks.mkdir()
        self.repo = Repo(folder / "repo")
        self.sha = self.repo.base
        self.ci = LocalCi(self.folder)

    def demand(self, jobs: dict[str, LocalJob] | None = None, **policy: Any) -> CiDemand:
        return CiDemand(
            repo="alphavm",
            repo_path=str(self.repo.path),
            branch="main",
            policy=CiPolicy(jobs=jobs or {}, **policy),
        )

    def commit(self, files: dict[str, str]) -> str:
        self.repo.write(files)
        self.sha = self.repo.commit("work")
        return self.sha

    async def run(self, demand: CiDemand) -> CiReport:
        await self.ci.start(demand, self.sha)
        return await self.finished(demand)

    async def finished(self, demand: CiDemand) -> CiReport:
        deadline = time.monotonic() + 30
        while not (report := await self.ci.look(demand, self.sha)).complete:
            assert time.monotonic() < deadline, report
            await asyncio.sleep(0.01)
        return report

    def has_begun(self, times: int = 1) -> bool:
        began = self.marks / "began"
        return began.exists() and len(began.read_text()) == times


@pytest.fixture
async def runner(tmp_path: Path) -> AsyncIterator[Runner]:
    runner = Runner(tmp_path)
    yield runner
    await runner.ci.close()


def job(*run: str, **settings: Any) -> LocalJob:
    return LocalJob(run=list(run), **settings)


def states(report: CiReport) -> dict[str, str]:
    return {job.name: job.state for run in report.runs for job in run.jobs}


def log_of(report: CiReport, name: str) -> str:
    return next(job.log_tail or "" for run in report.runs for job in run.jobs if job.name == name)


async def test_jobs_run_in_a_clean_checkout_of_the_commit(runner: Runner) -> None:
    sha = runner.commit({"data.txt": "committed\n"})
    (runner.repo.path / "data.txt").write_text("not committed\n")
    (runner.repo.path / "stray.txt").touch()
    demand = runner.demand(
        {
            "check": job("grep -x committed data.txt", "touch made-by-check"),
            "test": job("test ! -e stray.txt", "test ! -e made-by-check", needs=["check"]),
        }
    )
    report = await runner.run(demand)
    (run,) = report.runs
    assert (run.run_id, run.sha, run.state, run.event) == ("1", sha, "success", "push")
    assert states(report) == {"check": "success", "test": "success"}


@pytest.mark.requirement("CC-01")
async def test_a_job_whose_needs_failed_is_skipped(runner: Runner) -> None:
    demand = runner.demand(
        {
            "radicle-push": job("true", needs=["test"]),
            "test": job("echo first", "sh -c 'echo it broke; exit 3'", "echo never"),
            "lint": job("true"),
            "after": job("true", needs=["radicle-push", "lint"]),
        }
    )
    report = await runner.run(demand)
    assert states(report) == {
        "radicle-push": "skipped",
        "test": "failure",
        "lint": "success",
        "after": "skipped",
    }
    (run,) = report.runs
    assert run.state == "failure"
    assert log_of(report, "test") == (
        "$ echo first\nfirst\n$ sh -c 'echo it broke; exit 3'\nit broke\nexit code 3"
    )
    failed = next(job for job in run.jobs if job.name == "test")
    assert await runner.ci.log_tail(demand, run, failed) == failed.log_tail


async def test_a_command_that_needs_a_shell_fails_and_says_so(runner: Runner) -> None:
    report = await runner.run(runner.demand({"test": job("true && true")}))
    assert states(report) == {"test": "failure"}
    assert "without a shell" in log_of(report, "test")


async def test_the_time_limit_applies_to_the_whole_job(runner: Runner) -> None:
    report = await runner.run(runner.demand({"test": job("true", "sleep 60", timeout=1)}))
    assert "timed out" in log_of(report, "test")


async def test_the_servers_secrets_are_not_in_the_jobs_environment(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORGE_TOKEN", "t0p-s3cret")
    report = await runner.run(runner.demand({"test": job("sh -c 'env; exit 1'")}))
    assert "PATH=" in log_of(report, "test")
    assert "t0p-s3cret" not in log_of(report, "test")


@pytest.mark.requirement("CC-03")
async def test_a_commit_has_no_run_before_it_is_started(runner: Runner) -> None:
    report = await runner.ci.look(runner.demand({"test": job("true")}), runner.sha)
    assert report == CiReport(sha=runner.sha, runs=[], complete=False)


@pytest.mark.requirement("CC-03")
async def test_a_run_is_seen_waiting_and_running_and_is_not_started_twice(runner: Runner) -> None:
    held = job(f"{sys.executable} -c '{HELD}' {runner.marks}")
    demand = runner.demand({"hold": held, "last": job("true", needs=["hold"])})
    await runner.ci.start(demand, runner.sha)
    await asyncio.to_thread(wait_until, runner.has_begun, "the job begins")
    await runner.ci.start(demand, runner.sha)
    report = await runner.ci.look(demand, runner.sha)
    assert (report.complete, report.runs[0].state) == (False, "running")
    assert states(report) == {"hold": "running", "last": "waiting"}
    (runner.marks / "go").touch()
    assert [run.run_id for run in (await runner.finished(demand)).runs] == ["1"]
    await runner.ci.start(demand, runner.sha)
    assert (await runner.ci.look(demand, runner.sha)).complete
    assert runner.has_begun(times=1)


async def test_runs_are_numbered_separately_for_each_repository(runner: Runner) -> None:
    demand = runner.demand({"test": job("true")})
    assert (await runner.run(demand)).runs[0].run_id == "1"
    runner.commit({"more.txt": ""})
    assert (await runner.run(demand)).runs[0].run_id == "2"
    elsewhere = demand.model_copy(update={"repo": "deltavm"})
    assert (await runner.run(elsewhere)).runs[0].run_id == "1"


async def test_changed_jobs_in_the_policy_cause_a_new_run(runner: Runner) -> None:
    assert (await runner.run(runner.demand({"test": job("false")}))).runs[0].state == "failure"
    demand = runner.demand({"test": job("true")})
    assert (await runner.ci.look(demand, runner.sha)).runs == []
    (run,) = (await runner.run(demand)).runs
    assert (run.run_id, run.state) == ("2", "success")


@pytest.mark.requirement("CC-03")
async def test_only_the_job_that_a_killed_server_left_unfinished_is_repeated(
    runner: Runner,
) -> None:
    once = job(f"{sys.executable} -c \"open('{runner.marks}/once', 'a').write('x')\"")
    held = job(f"{sys.executable} -c '{HELD}' {runner.marks}", needs=["once"])
    demand = runner.demand({"once": once, "hold": held})
    arguments = [str(runner.folder), demand.model_dump_json(), runner.sha]
    server = await asyncio.create_subprocess_exec(sys.executable, "-c", START, *arguments)
    try:
        await asyncio.to_thread(wait_until, runner.has_begun, "the job begins", 30)
    finally:
        server.kill()
        await server.wait()
    (runner.marks / "go").touch()
    report = await runner.finished(demand)
    assert [(run.run_id, run.state) for run in report.runs] == [("1", "success")]
    assert (runner.marks / "once").read_text() == "x"
    assert runner.has_begun(times=2)


async def test_a_result_survives_a_server_restart(runner: Runner) -> None:
    demand = runner.demand({"test": job("false")})
    before = await runner.run(demand)
    await runner.ci.close()
    runner.ci = LocalCi(runner.folder)
    assert await runner.ci.look(demand, runner.sha) == before


async def test_a_damaged_result_is_produced_again(runner: Runner) -> None:
    demand = runner.demand({"test": job("true")})
    await runner.run(demand)
    (file,) = runner.folder.glob("results/*/*.json")
    file.write_text('{"sha": ')
    assert (await runner.ci.look(demand, runner.sha)).runs == []
    assert (await runner.run(demand)).runs[0].run_id == "2"


class _LateSave(LocalRunRecords):
    """A save is on disk at once, but returns only when `go` is set."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.has_ended, self.go = threading.Event(), threading.Event()

    def save(self, demand: CiDemand, record: LocalRunRecord) -> None:
        super().save(demand, record)
        if record.has_ended and not self.has_ended.is_set():
            self.has_ended.set()
            assert self.go.wait(30)


async def test_a_result_damaged_while_it_is_being_saved_is_produced_again(runner: Runner) -> None:
    records = runner.ci._records = _LateSave(runner.folder / "results")
    demand = runner.demand({"test": job("true")})
    await runner.run(demand)
    (file,) = runner.folder.glob("results/*/*.json")
    file.write_text('{"sha": ')
    starting = asyncio.create_task(runner.ci.start(demand, runner.sha))
    await asyncio.wait((starting,), timeout=0.2)
    records.go.set()
    await starting
    assert (await runner.finished(demand)).runs[0].run_id == "2"


async def test_a_run_that_this_machine_cannot_continue_is_cancelled_and_can_be_restarted(
    runner: Runner,
) -> None:
    held = job(f"{sys.executable} -c '{HELD}' {runner.marks}")
    demand = runner.demand({"hold": held, "last": job("true", needs=["hold"])})
    await runner.ci.start(demand, runner.sha)
    await asyncio.to_thread(wait_until, runner.has_begun, "the job begins")
    (mirror,) = (runner.folder / "mirrors").iterdir()
    hidden = mirror.rename(mirror.with_name("hidden"))
    (runner.marks / "go").touch()
    report = await runner.finished(demand)
    assert states(report) == {"hold": "success", "last": "cancelled"}
    assert report.runs[0].state == "cancelled"
    hidden.rename(mirror)
    (run,) = (await runner.run(demand)).runs
    assert (run.run_id, run.state) == ("2", "success")


class _StaleRecords(LocalRunRecords):
    """Reading a record returns what it was before."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.has_read, self.go = threading.Event(), threading.Event()

    def load(self, demand: CiDemand, sha: str) -> LocalRunRecord | None:
        record = super().load(demand, sha)
        self.has_read.set()
        assert self.go.wait(30)
        return record


async def test_reading_a_run_while_it_is_cancelled_does_not_restart_it(runner: Runner) -> None:
    held = job(f"{sys.executable} -c '{HELD}' {runner.marks}")
    demand = runner.demand({"hold": held, "last": job("true", needs=["hold"])})
    await runner.ci.start(demand, runner.sha)
    await asyncio.to_thread(wait_until, runner.has_begun, "the job begins")
    (mirror,) = (runner.folder / "mirrors").iterdir()
    mirror.rename(mirror.with_name("hidden"))
    records = runner.ci._records = _StaleRecords(runner.folder / "results")
    looking = asyncio.create_task(runner.ci.look(demand, runner.sha))
    await asyncio.to_thread(wait_until, records.has_read.is_set, "the open run was read")
    (runner.marks / "go").touch()
    await eventually(lambda: not runner.ci._active, "the run is cancelled", 30)
    records.go.set()
    report = await looking
    assert (report.complete, report.runs[0].run_id) == (True, "1")
    assert states(report) == {"hold": "success", "last": "cancelled"}
    assert not mirror.exists()


class _SlowRecords(LocalRunRecords):
    """The first save waits for `go`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.begun, self.go, self.saved = threading.Event(), threading.Event(), 0

    def save(self, demand: CiDemand, record: LocalRunRecord) -> None:
        if not self.begun.is_set():
            self.begun.set()
            assert self.go.wait(30)
        super().save(demand, record)
        self.saved += 1


async def test_a_cancelled_save_does_not_overwrite_the_next_one(
    runner: Runner,
) -> None:
    records = _SlowRecords(runner.folder / "results")
    demand = runner.demand({"test": job("true")})
    waits = CiRun(
        run_id="1", sha=runner.sha, state="waiting", jobs=[CiJob(name="test", state="waiting")]
    )
    work = LocalRun(demand, LocalRunRecord(sha=runner.sha, plan="", runs=[waits]), records)
    telling = asyncio.create_task(work.report_job(CiJob(name="test", state="running")))
    await eventually(records.begun.is_set, "it is being saved")
    telling.cancel()
    calling_off = asyncio.create_task(work.cancel("no more"))
    await asyncio.wait((calling_off,), timeout=0.2)
    records.go.set()
    await asyncio.wait((telling, calling_off))
    await eventually(lambda: records.saved == 2, "both are saved")
    found = records.load(demand, runner.sha)
    assert telling.cancelled()
    assert found is not None
    assert found.runs[0].state == "cancelled"


@pytest.mark.requirement("CC-12")
async def test_restarting_a_run_cancels_it_and_runs_it_again(runner: Runner) -> None:
    quick = job(f"{sys.executable} -c \"open('{runner.marks}/quick', 'a').write('x')\"")
    held = job(f"{sys.executable} -c '{HELD}' {runner.marks}", needs=["quick"])
    demand = runner.demand({"quick": quick, "hold": held})
    await runner.ci.start(demand, runner.sha)
    await asyncio.to_thread(wait_until, runner.has_begun, "the job begins", 30)
    (run,) = (await runner.ci.look(demand, runner.sha)).runs
    assert await runner.ci.restart(demand, runner.sha, run) is True
    (anew,) = (await runner.ci.look(demand, runner.sha)).runs
    assert (anew.run_id, anew.sha, anew.state) == ("2", runner.sha, "waiting")
    # A restart of the replaced run does nothing.
    assert await runner.ci.restart(demand, runner.sha, run) is True
    await asyncio.to_thread(wait_until, lambda: runner.has_begun(times=2), "it begins again", 30)
    (runner.marks / "go").touch()
    (run,) = (await runner.finished(demand)).runs
    assert (run.run_id, run.state) == ("2", "success")
    assert (runner.marks / "quick").read_text() == "xx"


@pytest.mark.requirement("CC-12")
async def test_a_run_that_was_never_started_cannot_be_restarted(runner: Runner) -> None:
    demand = runner.demand({"test": job("true")})
    run = CiRun(run_id="1", sha=runner.sha, state="waiting")
    assert await runner.ci.restart(demand, runner.sha, run) is False


@pytest.mark.requirement("CC-01")
@pytest.mark.parametrize("sha", ["1" * 40, "main", "--help"])
async def test_an_unpushed_commit_is_not_run(runner: Runner, sha: str) -> None:
    with pytest.raises(CiUnavailable, match="there is no commit") as caught:
        await runner.ci.start(runner.demand({"test": job("true")}), sha)
    assert caught.value.facts["reason"] == "commit"


async def test_the_local_runner_is_the_default_provider(runner: Runner) -> None:
    opened = CiProviders(runner.folder)
    demand = runner.demand({"test": job("true")})
    try:
        await opened.of(demand).start(demand, runner.sha)
        assert len((await opened.of(demand).look(demand, runner.sha)).runs) == 1
    finally:
        await opened.close()


# ------------------------------------------------------------------------------ workflow files

WORKFLOW = """
name: CI
on: push
jobs:
  check:
    runs-on: docker
    steps:
      - uses: actions/checkout@v4
      - run: test -f data.txt
  test:
    name: The tests
    needs: check
    runs-on: ubuntu-latest
    strategy:
      matrix:
        part: [one, two]
    steps:
      - run: echo ${{ matrix.part }}; test ${{ matrix.part }} != two
  radicle-push:
    needs: test
    if: github.ref == 'refs/heads/main' && github.event_name == 'push'
    runs-on: ubuntu-latest
    steps:
      - run: "true"
"""
GREEN = WORKFLOW.replace("!= two", "!= three")


@pytest.fixture
def act(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    if act_program() is None:
        pytest.skip("act is not installed")


@pytest.mark.usefixtures("act")
@pytest.mark.requirement("CC-01")
async def test_workflow_files_are_run_if_act_is_installed(runner: Runner) -> None:
    runner.commit({"data.txt": "", ".forgejo/workflows/ci.yml": GREEN})
    demand = runner.demand()
    report = await runner.run(demand)
    assert states(report) == {"check": "success", "The tests": "success", "radicle-push": "success"}
    (run,) = report.runs
    assert (run.state, run.workflow) == ("success", ".forgejo/workflows/ci.yml")
    runner.commit({".forgejo/workflows/ci.yml": WORKFLOW})
    report = await runner.run(demand)
    assert states(report) == {"check": "success", "The tests": "failure", "radicle-push": "skipped"}
    assert "exit status 1" in log_of(report, "The tests")
    assert report.runs[0].state == "failure"


@pytest.mark.usefixtures("act")
@pytest.mark.requirement("CC-01")
async def test_act_settings_in_the_commit_are_ignored(runner: Runner) -> None:
    runner.commit({"data.txt": "", ".actrc": "-n\n", ".github/workflows/ci.yml": WORKFLOW})
    assert states(await runner.run(runner.demand()))["The tests"] == "failure"


@pytest.mark.usefixtures("act")
async def test_each_workflow_that_runs_on_push_is_a_run(runner: Runner) -> None:
    runner.commit(
        {
            "data.txt": "",
            ".gitea/workflows/ci.yml": GREEN,
            ".gitea/workflows/nightly.yml": WORKFLOW.replace("on: push", "on: issues"),
            ".gitea/workflows/broken.yml": "jobs: [",
            ".github/workflows/ignored.yml": WORKFLOW,
        }
    )
    report = await runner.run(runner.demand())
    found = {run.workflow: run.state for run in report.runs}
    assert found == {".gitea/workflows/broken.yml": "failure", ".gitea/workflows/ci.yml": "success"}


@pytest.mark.usefixtures("act")
@pytest.mark.requirement("CC-01")
async def test_a_commit_without_workflows_for_pushes_proves_nothing(
    runner: Runner,
) -> None:
    runner.commit({".github/workflows/ci.yml": WORKFLOW.replace("on: push", "on: issues")})
    (run,) = (await runner.run(runner.demand())).runs
    assert (run.state, run.jobs) == ("cancelled", [])


async def test_without_jobs_and_act_the_error_says_so(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(Path(shutil.which("git") or "").parent))
    if act_program() is not None:
        pytest.skip("act lies beside git here")
    with pytest.raises(CiUnavailable, match="`act`, which runs workflow files, is not installed"):
        await runner.ci.start(runner.demand(), runner.sha)


@pytest.mark.usefixtures("act")
async def test_without_jobs_and_workflow_files_the_error_says_so(runner: Runner) -> None:
    with pytest.raises(CiUnavailable, match="the commit has no workflow files"):
        await runner.ci.start(runner.demand(), runner.sha)
