"""Everything that a run stands on, from a plan and a server."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from shiftboss.client.server_address import Server
from shiftboss.errors import InvalidRequest
from shiftboss.orchestrator.agents.registry import AGENTS
from shiftboss.orchestrator.guardian.agent_process import ProcessLimits
from shiftboss.orchestrator.landing.landing import Landing
from shiftboss.orchestrator.landing.landing_queue import LandingQueue
from shiftboss.orchestrator.run.plan_branches import PlanBranches
from shiftboss.orchestrator.run.plan_run import RunOutcome, landing_outcome, run_to_completion
from shiftboss.orchestrator.run.plan_status import read_plan_status
from shiftboss.orchestrator.run.progress import Progress
from shiftboss.orchestrator.run.run_context import RunContext, RunPaths
from shiftboss.orchestrator.run.server_client import RunServerClient
from shiftboss.orchestrator.run.server_process import ServerOptions, serving
from shiftboss.orchestrator.worktrees.worktrees import Worktrees
from shiftboss.protocol.plan import Plan

# What a run has told people, kept beside the logs of its attempts for those who look later.


NAME: Final = "run.log"


class RunLog:
    """A listener of the board. A disk that is full is no reason to end the run."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / NAME

    def __call__(self, bead_id: str, text: str) -> None:
        words = " ".join((f"{bead_id}: {text}" if bead_id else text).split())
        with contextlib.suppress(OSError), self._file.open("a", encoding="utf-8") as log:
            log.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}  {words}\n")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """`database` and `operator_token` are for a server of our own; what lies beside the database is
    the state of the run."""

    plan: Plan
    server: Server
    database: str
    policy: Path | None = None
    trees: Path | None = None
    own_server: bool = False
    retry: bool = False
    operator_token: str | None = field(default=None, repr=False)

    @property
    def state(self) -> Path:
        if "://" in self.database:
            return Path(".shiftboss").absolute()
        return Path(self.database).absolute().parent


async def run_wish(options: RunOptions, progress: Progress) -> RunOutcome:
    """Raises InvalidRequest when an agent of the plan cannot be started here."""
    async with _open_run(options, progress) as run:
        check_agents(run)
        return await run_to_completion(run, retry=options.retry)


async def land_plan(
    options: RunOptions, tasks: Collection[str], progress: Progress | None = None
) -> RunOutcome:
    """Land what is accepted, once and in order. Nothing is started."""
    async with _open_run(options, progress or Progress()) as run:
        unknown = [one for one in tasks if not run.knows(one)]
        if unknown:
            raise InvalidRequest(f"the plan has no task {unknown[0]}", field="tasks")
        landing_queue = LandingQueue(run, Landing(run.paths.landing), only=frozenset(tasks))
        try:
            with run.paths.held():
                while await landing_queue.land_all(await read_plan_status(run)):
                    pass
            return landing_outcome(run, landing_queue, await read_plan_status(run), tasks)
        finally:
            await landing_queue.close()


@asynccontextmanager
async def _open_run(options: RunOptions, progress: Progress) -> AsyncIterator[RunContext]:
    swarm_id = options.plan.swarm
    assert swarm_id is not None, "a plan that was read has one"
    paths = RunPaths.of(options.state, swarm_id, options.trees)
    paths.run.mkdir(mode=0o700, parents=True, exist_ok=True)
    progress.listeners.append(RunLog(paths.run))
    wanted = ServerOptions(
        options.server,
        options.database,
        paths.run / "server.log",
        options.policy,
        options.own_server,
        options.operator_token,
    )
    async with (
        serving(wanted, progress) as served,
        RunServerClient(served.server, swarm_id, served.operator_token) as client,
    ):
        progress.say("", f"swarm {swarm_id} at {served.server.address}")
        yield RunContext(
            plan=options.plan,
            paths=paths,
            worktrees=Worktrees(paths.trees),
            branches=PlanBranches(),
            client=client,
            progress=progress,
            agents=AGENTS,
            limits=ProcessLimits(),
        )


def check_agents(run: RunContext) -> None:
    """Before anything starts: a plan that cannot be worked on is not begun."""
    for task in run.plan.tasks:
        settings = run.settings(task)
        agent = run.agents.get(settings.kind)
        if agent is None:
            raise InvalidRequest(
                f"there is no agent {settings.kind!r}",
                field="agent",
                hint=f"known are {', '.join(sorted(run.agents))}",
            )
        missing = agent.found(settings)
        if missing is not None:
            raise InvalidRequest(f"{settings.kind} cannot be started: {missing}", field="agent")
