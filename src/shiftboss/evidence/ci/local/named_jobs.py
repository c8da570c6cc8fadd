"""The jobs of a policy: commands in clean checkouts, in the order that their needs give."""

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

Tell = Callable[[CiJob], Awaitable[None]]


class Source(NamedTuple):
    """What is tested. `beside` puts the repos that it is built on beside it, for one job, and gives
    the variables that say where."""

    mirror: Mirror
    sha: str
    beside: Callable[[], AbstractAsyncContextManager[Mapping[str, str]]]


class NamedJobs:
    """Each job has a checkout of its own, so that none can prepare the ground for another."""

    def __init__(self, deletion: BackgroundDelete, turns: asyncio.Semaphore) -> None:
        self._deletion = deletion
        self._turns = turns

    async def run(
        self,
        source: Source,
        jobs: Mapping[str, LocalJob],
        states: Mapping[str, JobState],
        tell: Tell,
    ) -> None:
        """`states` are those from before an interruption: a job that has ended is not run again."""
        ends = {
            name: state for name, state in states.items() if state not in ("waiting", "running")
        }
        order = TopologicalSorter({name: job.needs for name, job in jobs.items()})
        order.prepare()

        async def one(name: str) -> str:
            if name in jobs and name not in ends:
                broken = [need for need in jobs[name].needs if ends.get(need) != "success"]
                ended = (
                    _skipped(name, broken)
                    if broken
                    else await self._run(source, name, jobs[name], tell)
                )
                ends[name] = ended.state
                await tell(ended)
            return name

        async with asyncio.TaskGroup() as group:
            running: set[asyncio.Task[str]] = set()
            while order.is_active():
                running |= {group.create_task(one(name)) for name in order.get_ready()}
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                order.done(*(task.result() for task in done))

    async def _run(self, source: Source, name: str, job: LocalJob, tell: Tell) -> CiJob:
        async with self._turns:
            await tell(CiJob(name=name, state="running"))
            async with (
                source.beside() as variables,
                clean_checkout(source.mirror, source.sha, self._deletion) as checkout,
            ):
                log = await _run_commands(job, checkout, variables)
        if log is None:
            return CiJob(name=name, state="success")
        return CiJob(name=name, state="failure", log_tail=log)


async def _run_commands(
    job: LocalJob, checkout: Checkout, variables: Mapping[str, str]
) -> str | None:
    """The end of the log when one of them failed, after which the others are not run."""
    own = await asyncio.to_thread(checkout_environment, [], checkout.home)
    environment = {**own, **variables}
    deadline = time.monotonic() + job.timeout
    log = ""
    for text in job.run:
        try:
            argv = parse_command(text)
        except ValueError as error:
            return f"{log}$ {text}\n{error}"
        seconds = max(0.1, deadline - time.monotonic())
        done = await run_command(argv, checkout.files, Limits(seconds, MEGABYTES), environment)
        log = f"{log}$ {text}\n{done.output_tail}"[-LOG_TAIL_BYTES:]
        if done.exit_code != 0:
            return f"{log.rstrip()}\n{done.message}"
    return None


def _skipped(name: str, broken: list[str]) -> CiJob:
    return CiJob(name=name, state="skipped", log_tail=f"not run: {', '.join(broken)} did not pass")


# The repos that a repo is built on, checked out beside it for the jobs of the local runner.


class Dependencies:
    def __init__(self, mirrors: Mirrors, deletion: BackgroundDelete) -> None:
        self._mirrors = mirrors
        self._deletion = deletion

    async def commits(self, demand: CiDemand) -> dict[str, str]:
        """Of each the commit that is meant now: all jobs of a run see the same ones."""
        return {name: await self._commit(name, one) for name, one in demand.dependencies.items()}

    @asynccontextmanager
    async def beside(
        self, demand: CiDemand, commits: Mapping[str, str]
    ) -> AsyncIterator[dict[str, str]]:
        """Variables with the folders of fresh checkouts, which nobody else uses."""
        variables = {}
        async with AsyncExitStack() as stack:
            for name, commit in commits.items():
                mirror = await self._mirrors.of(demand.dependencies[name].path)
                made = await stack.enter_async_context(
                    clean_checkout(mirror, commit, self._deletion)
                )
                variables[variable_of(name)] = str(made.files)
            yield variables

    async def contains(self, demand: CiDemand, name: str, tip: str, commit: str) -> bool:
        """Is the commit in the history of the tip?"""
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
        (found,) = await mirror.look_up([f"{BRANCHES}{wanted.branch}"])
        if found is None or found.kind != "commit":
            raise _missing(f"there is no branch {wanted.branch} in {name}, which this is built on")
        return found.id


async def has_commit(mirror: Mirror, sha: str) -> bool:
    (found,) = await mirror.look_up([sha])
    return found is not None and found.kind == "commit" and found.id == sha


def _missing(detail: str) -> CiUnavailable:
    return CiUnavailable(
        detail,
        reason="set_up",
        retry_after_seconds=SET_UP_SECONDS,
        hint="look at path and branch of that repo in shiftboss.yaml",
    )
