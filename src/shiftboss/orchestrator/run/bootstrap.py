"""Everything that a run stands on, from a plan and a server."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from shiftboss.agents.registry import AGENTS
from shiftboss.client.server_address import Server
from shiftboss.errors import InvalidRequest
from shiftboss.orchestrator.guardian.agent_process import ProcessLimits
from shiftboss.orchestrator.landing.landing import Landing
from shiftboss.orchestrator.landing.landing_queue import LandingQueue
from shiftboss.orchestrator.run.plan_branches import PlanBranches
from shiftboss.orchestrator.run.plan_run import RunOutcome, landing_outcome, run_plan
from shiftboss.orchestrator.run.plan_status import read_book
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


async def run_wish(wish: RunOptions, board: Progress) -> RunOutcome:
    """Raises InvalidRequest when an agent of the plan cannot be started here."""
    async with _ground(wish, board) as ground:
        check_agents(ground)
        return await run_plan(ground, retry=wish.retry)


async def land_plan(
    wish: RunOptions, tasks: Collection[str], board: Progress | None = None
) -> RunOutcome:
    """Land what is accepted, once and in order. Nothing is started."""
    async with _ground(wish, board or Progress()) as ground:
        unknown = [one for one in tasks if not ground.knows(one)]
        if unknown:
            raise InvalidRequest(f"the plan has no task {unknown[0]}", field="tasks")
        lander = LandingQueue(ground, Landing(ground.places.landing), only=frozenset(tasks))
        try:
            with ground.places.held():
                while await lander.land_all(await read_book(ground)):
                    pass
            return landing_outcome(ground, lander, await read_book(ground), tasks)
        finally:
            await lander.close()


@asynccontextmanager
async def _ground(wish: RunOptions, board: Progress) -> AsyncIterator[RunContext]:
    swarm_id = wish.plan.swarm
    assert swarm_id is not None, "a plan that was read has one"
    places = RunPaths.of(wish.state, swarm_id, wish.trees)
    places.run.mkdir(mode=0o700, parents=True, exist_ok=True)
    board.listeners.append(RunLog(places.run))
    wanted = ServerOptions(
        wish.server,
        wish.database,
        places.run / "server.log",
        wish.policy,
        wish.own_server,
        wish.operator_token,
    )
    async with (
        serving(wanted, board) as served,
        RunServerClient(served.server, swarm_id, served.operator_token) as line,
    ):
        board.say("", f"swarm {swarm_id} at {served.server.address}")
        yield RunContext(
            plan=wish.plan,
            places=places,
            trees=Worktrees(places.trees),
            branches=PlanBranches(),
            line=line,
            board=board,
            agents=AGENTS,
            limits=ProcessLimits(),
        )


def check_agents(ground: RunContext) -> None:
    """Before anything starts: a plan that cannot be worked on is not begun."""
    for task in ground.plan.tasks:
        settings = ground.settings(task)
        agent = ground.agents.get(settings.kind)
        if agent is None:
            raise InvalidRequest(
                f"there is no agent {settings.kind!r}",
                field="agent",
                hint=f"known are {', '.join(sorted(ground.agents))}",
            )
        missing = agent.why_unavailable(settings)
        if missing is not None:
            raise InvalidRequest(f"{settings.kind} cannot be started: {missing}", field="agent")
