"""The jobs of a policy: commands in clean checkouts, after the jobs that they need, with the repos
that the repo is built on checked out beside it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from graphlib import TopologicalSorter
from typing import Final, NamedTuple

from shiftboss.errors import CiUnavailable
from shiftboss.evidence.ci.forge_api.access import SET_UP_SECONDS
from shiftboss.evidence.ci.forge_api.http import LOG_TAIL_BYTES
from shiftboss.evidence.commands.command import Limits, checkout_environment, run_command
from shiftboss.evidence.mirror.checkout import Checkout, clean_checkout
from shiftboss.evidence.mirror.mirror import BRANCHES, Mirror, Mirrors
from shiftboss.protocol.ci import CiDemand, CiDependency, CiJob, JobState
from shiftboss.protocol.policy import LocalJob
from shiftboss.rules.claims.criteria import parse_command
from shiftboss.rules.contract.repo_graph import variable_of
from shiftboss.system.background_delete import BackgroundDelete

MEGABYTES: Final = 4096

ReportJob = Callable[[CiJob], Awaitable[None]]


class JobSource(NamedTuple):
    """The commit to test. `dependencies` checks out the repos that it is built on, for one job, and
    yields the variables with their folders."""

    mirror: Mirror
    sha: str
    dependencies: Callable[[], AbstractAsyncContextManager[Mapping[str, str]]]


class NamedJobs:
    """Each job has a checkout of its own, so that no job can influence another."""

    def __init__(self, deletion: BackgroundDelete, slots: asyncio.Semaphore) -> None:
        self._deletion = deletion
        self._slots = slots

    async def run(
        self,
        source: JobSource,
        jobs: Mapping[str, LocalJob],
        states: Mapping[str, JobState],
        report: ReportJob,
    ) -> None:
        """`states` are those before an interruption: a job that has ended is not run again."""
        ends = {
            name: state for name, state in states.items() if state not in ("waiting", "running")
        }
        order = TopologicalSorter({name: job.needs for name, job in jobs.items()})
        order.prepare()

        async def run_job(name: str) -> str:
            if name in jobs and name not in ends:
                failed = [need for need in jobs[name].needs if ends.get(need) != "success"]
                ended = (
                    _skipped(name, failed)
                    if failed
                    else await self._run(source, name, jobs[name], report)
                )
                ends[name] = ended.state
                await report(ended)
            return name

        async with asyncio.TaskGroup() as group:
            running: set[asyncio.Task[str]] = set()
            while order.is_active():
                running |= {group.create_task(run_job(name)) for name in order.get_ready()}
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                order.done(*(task.result() for task in done))

    async def _run(self, source: JobSource, name: str, job: LocalJob, report: ReportJob) -> CiJob:
        async with self._slots:
            await report(CiJob(name=name, state="running"))
            async with (
                source.dependencies() as variables,
                clean_checkout(source.mirror, source.sha, self._deletion) as checkout,
            ):
                log = await _run_commands(job, checkout, variables)
        if log is None:
            return CiJob(name=name, state="success")
        return CiJob(name=name, state="failure", log_tail=log)


async def _run_commands(
    job: LocalJob, checkout: Checkout, variables: Mapping[str, str]
) -> str | None:
    """The end of the log if a command failed; the commands after it are not run."""
    scrubbed = await asyncio.to_thread(checkout_environment, [], checkout.home)
    environment = {**scrubbed, **variables}
    deadline = time.monotonic() + job.timeout
    log = ""
    for text in job.run:
        try:
            argv = parse_command(text)
        except ValueError as error:
            return f"{log}$ {text}\n{error}"
        seconds = max(0.1, deadline - time.monotonic())
        result = await run_command(argv, checkout.files, Limits(seconds, MEGABYTES), environment)
        log = f"{log}$ {text}\n{result.output_tail}"[-LOG_TAIL_BYTES:]
        if result.exit_code != 0:
            return f"{log.rstrip()}\n{result.message}"
    return None


def _skipped(name: str, failed: list[str]) -> CiJob:
    return CiJob(name=name, state="skipped", log_tail=f"not run: {', '.join(failed)} did not pass")


class Dependencies:
    """The repos that a repo is built on."""

    def __init__(self, mirrors: Mirrors, deletion: BackgroundDelete) -> None:
        self._mirrors = mirrors
        self._deletion = deletion

    async def commits(self, demand: CiDemand) -> dict[str, str]:
        """The current commit of each dependency; all jobs of a run use the same ones."""
        return {
            name: await self._commit(name, dependency)
            for name, dependency in demand.dependencies.items()
        }

    @asynccontextmanager
    async def checked_out(
        self, demand: CiDemand, commits: Mapping[str, str]
    ) -> AsyncIterator[dict[str, str]]:
        """Variables with the folders of fresh checkouts for one job."""
        variables = {}
        async with AsyncExitStack() as stack:
            for name, commit in commits.items():
                mirror = await self._mirrors.of(demand.dependencies[name].path)
                checkout = await stack.enter_async_context(
                    clean_checkout(mirror, commit, self._deletion)
                )
                variables[variable_of(name)] = str(checkout.files)
            yield variables

    async def contains(self, demand: CiDemand, name: str, tip: str, commit: str) -> bool:
        """Whether the commit is in the history of the tip."""
        mirror = await self._mirrors.of(demand.dependencies[name].path)
        return await has_commit(mirror, commit) and await mirror.is_ancestor(commit, tip)

    async def _commit(self, name: str, wanted: CiDependency) -> str:
        mirror = await self._mirrors.of(wanted.path)
        if wanted.commit is not None:
            if not (mirror.path.exists() and await has_commit(mirror, wanted.commit)):
                await mirror.refresh()
            if await has_commit(mirror, wanted.commit):
                return wanted.commit
            raise _missing(f"there is no commit {wanted.commit} on any branch of {name}")
        await mirror.refresh()
        (resolved,) = await mirror.look_up([f"{BRANCHES}{wanted.branch}"])
        if resolved is None or resolved.kind != "commit":
            raise _missing(f"there is no branch {wanted.branch} in the dependency {name}")
        return resolved.id


async def has_commit(mirror: Mirror, sha: str) -> bool:
    (resolved,) = await mirror.look_up([sha])
    return resolved is not None and resolved.kind == "commit" and resolved.id == sha


def _missing(detail: str) -> CiUnavailable:
    return CiUnavailable(
        detail,
        reason="set_up",
        retry_after_seconds=SET_UP_SECONDS,
        hint="check path and branch of that repo in shiftboss.yaml",
    )
