"""Everything that a run stands on, from a plan and a server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from shiftboss.client.server_address import Server
from shiftboss.errors import InvalidRequest
from shiftboss.orchestrator.agents.known import AGENTS
from shiftboss.orchestrator.board import Board
from shiftboss.orchestrator.book import read_book
from shiftboss.orchestrator.branches import Branches
from shiftboss.orchestrator.ground import Ground
from shiftboss.orchestrator.lander import Lander
from shiftboss.orchestrator.landing import Landing
from shiftboss.orchestrator.line import Line
from shiftboss.orchestrator.places import Places
from shiftboss.orchestrator.process import ProcessLimits
from shiftboss.orchestrator.run import Outcome, landing_outcome, run_plan
from shiftboss.orchestrator.run_log import RunLog
from shiftboss.orchestrator.server_process import ServerWish, serving
from shiftboss.orchestrator.trees import Trees
from shiftboss.protocol.plan import Plan


@dataclass(frozen=True, slots=True)
class RunWish:
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


async def run_wish(wish: RunWish, board: Board) -> Outcome:
    """Raises InvalidRequest when an agent of the plan cannot be started here."""
    async with _ground(wish, board) as ground:
        check_agents(ground)
        return await run_plan(ground, retry=wish.retry)


async def land_plan(wish: RunWish, tasks: Collection[str], board: Board | None = None) -> Outcome:
    """Land what is accepted, once and in order. Nothing is started."""
    async with _ground(wish, board or Board()) as ground:
        unknown = [one for one in tasks if not ground.knows(one)]
        if unknown:
            raise InvalidRequest(f"the plan has no task {unknown[0]}", field="tasks")
        lander = Lander(ground, Landing(ground.places.landing), only=frozenset(tasks))
        try:
            with ground.places.held():
                while await lander.land_all(await read_book(ground)):
                    pass
            return landing_outcome(ground, lander, await read_book(ground), tasks)
        finally:
            await lander.close()


@asynccontextmanager
async def _ground(wish: RunWish, board: Board) -> AsyncIterator[Ground]:
    swarm_id = wish.plan.swarm
    assert swarm_id is not None, "a plan that was read has one"
    places = Places.of(wish.state, swarm_id, wish.trees)
    places.run.mkdir(mode=0o700, parents=True, exist_ok=True)
    board.listeners.append(RunLog(places.run))
    wanted = ServerWish(
        wish.server,
        wish.database,
        places.run / "server.log",
        wish.policy,
        wish.own_server,
        wish.operator_token,
    )
    async with (
        serving(wanted, board) as served,
        Line(served.server, swarm_id, served.operator_token) as line,
    ):
        board.say("", f"swarm {swarm_id} at {served.server.address}")
        yield Ground(
            plan=wish.plan,
            places=places,
            trees=Trees(places.trees),
            branches=Branches(),
            line=line,
            board=board,
            agents=AGENTS,
            limits=ProcessLimits(),
        )


def check_agents(ground: Ground) -> None:
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
        missing = agent.found(settings)
        if missing is not None:
            raise InvalidRequest(f"{settings.kind} cannot be started: {missing}", field="agent")
